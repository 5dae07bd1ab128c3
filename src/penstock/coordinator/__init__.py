"""Groups, committed offsets and transactions: machines over partitions of two internal topics."""
