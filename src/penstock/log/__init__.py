"""One partition's log, in Kafka's files, on an injected disk."""
