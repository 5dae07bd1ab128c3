"""Partitions of this node: creation, leadership, settings, deletion."""
