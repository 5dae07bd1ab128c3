"""One file per family of records that internal topics and checkpoints hold."""
