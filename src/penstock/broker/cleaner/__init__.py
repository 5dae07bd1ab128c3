"""Compaction of hosted partitions: which log is next, who does the work, what came of it."""
