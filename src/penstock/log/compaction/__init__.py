"""Compaction: closed segments keep the newest record of each key, on an injected disk."""
