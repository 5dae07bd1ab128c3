"""Produced batches on their way to a log: parsed prefixes, validation, recompression."""
