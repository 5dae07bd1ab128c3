"""Replication on this node: followers of leaders elsewhere, and the in-sync sets of its leaders."""
