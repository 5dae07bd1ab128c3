"""The command line. All commands use the client, so they work with any Kafka cluster."""
