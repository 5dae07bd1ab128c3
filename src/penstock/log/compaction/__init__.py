"""Compaction: of closed segments the newest record of each key is kept, on an injected disk."""
