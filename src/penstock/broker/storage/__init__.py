"""Log directories: sync rounds, checkpoints, placements, delayed deletion."""
