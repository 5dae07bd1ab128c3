"""Penstock held against Apache Kafka's own classes, tools and directories."""
