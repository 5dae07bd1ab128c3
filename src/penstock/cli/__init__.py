"""The command line. It reaches a cluster only through the client, so it works with any Kafka."""
