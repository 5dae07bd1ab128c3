"""Arguments and options that commands share, parsed and completed."""
