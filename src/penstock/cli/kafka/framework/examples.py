"""The example that `--help` of each of Kafka's commands ends with."""

from collections.abc import Mapping

EXAMPLES: Mapping[str, str] = {
    "kafka-acls": "kafka-acls --bootstrap-server localhost:9092 --list",
    "kafka-broker-api-versions": "kafka-broker-api-versions --bootstrap-server localhost:9092",
    "kafka-cluster": "kafka-cluster cluster-id --bootstrap-server localhost:9092",
    "kafka-configs": "kafka-configs --bootstrap-server localhost:9092 --alter --topic orders "
    "--add-config retention.ms=86400000",
    "kafka-console-consumer": "kafka-console-consumer --bootstrap-server localhost:9092 "
    "--topic orders --from-beginning",
    "kafka-console-producer": "echo hello | kafka-console-producer "
    "--bootstrap-server localhost:9092 --topic orders",
    "kafka-consumer-groups": "kafka-consumer-groups --bootstrap-server localhost:9092 "
    "--describe --group billing",
    "kafka-consumer-perf-test": "kafka-consumer-perf-test --bootstrap-server localhost:9092 "
    "--topic orders --num-records 100000",
    "kafka-delete-records": "kafka-delete-records --bootstrap-server localhost:9092 "
    "--offset-json-file offsets.json",
    "kafka-dump-log": "kafka-dump-log --files data/orders-0/00000000000000000000.log "
    "--print-data-log",
    "kafka-get-offsets": "kafka-get-offsets --bootstrap-server localhost:9092 --topic orders",
    "kafka-leader-election": "kafka-leader-election --bootstrap-server localhost:9092 "
    "--election-type preferred --all-topic-partitions",
    "kafka-log-dirs": "kafka-log-dirs --bootstrap-server localhost:9092 --describe",
    "kafka-metadata-quorum": "kafka-metadata-quorum --bootstrap-server localhost:9092 "
    "describe --status",
    "kafka-producer-perf-test": "kafka-producer-perf-test --bootstrap-server localhost:9092 "
    "--topic orders --num-records 100000 --record-size 100 --throughput -1",
    "kafka-reassign-partitions": "kafka-reassign-partitions --bootstrap-server localhost:9092 "
    "--reassignment-json-file moves.json --execute",
    "kafka-server-start": "kafka-server-start server.properties --override num.partitions=3",
    "kafka-server-stop": "kafka-server-stop --node-id 1",
    "kafka-storage": "kafka-storage format --standalone --cluster-id ID --config server.properties",
    "kafka-topics": "kafka-topics --bootstrap-server localhost:9092 --create --topic orders "
    "--partitions 3",
    "kafka-transactions": "kafka-transactions --bootstrap-server localhost:9092 list",
}


def example_text(name: str) -> str:
    """Return the lines with the example of a command."""
    return f"Example:\n  {EXAMPLES[name]}"
