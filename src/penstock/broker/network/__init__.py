"""Connections: listeners, frames, limits, and the way from a frame to its handler."""
