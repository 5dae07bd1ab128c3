"""Records of Kafka's tools: lines in, senders, formatters out."""
