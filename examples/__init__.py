"""Pipelines to look at, and to begin one's own with."""
