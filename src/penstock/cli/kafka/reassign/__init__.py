"""Parts of kafka-reassign-partitions: plans and throttles."""
