"""The names of callers and their rights: pure decisions, for nodes."""
