"""The options of a job (`.option(...)`), read into typed values; wrong ones are rejected."""
