"""Outbound connections of a node to other nodes."""
