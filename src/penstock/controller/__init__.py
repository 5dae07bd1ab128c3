"""Cluster metadata as a replicated state machine, and the image that is built from its records."""
