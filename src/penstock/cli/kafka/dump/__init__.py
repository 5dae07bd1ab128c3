"""Parts of kafka-dump-log: printers of batches and of indexes."""
