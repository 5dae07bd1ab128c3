"""Parts of kafka-consumer-groups: tables, deletions, resets."""
