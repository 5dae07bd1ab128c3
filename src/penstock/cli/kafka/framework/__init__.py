"""Options, errors and exit codes of Kafka's tools, shared by all of the commands."""
