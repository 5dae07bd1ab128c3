#!/bin/sh
# Kafka's script of this name; the command itself is penstock.cli.kafka.
exec "$(dirname "$0")/kafka-run.sh" "$(basename "$0" .sh)" "$@"
