"""Parts of kafka-configs: entities, quotas, SCRAM credentials."""
