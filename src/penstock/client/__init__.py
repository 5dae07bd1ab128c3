"""Clients of a cluster. They speak the protocol and nothing else, so they work with any Kafka."""
