"""The number of this release: here, so that a node which tells it imports nothing else."""

VERSION = "0.1.0"
