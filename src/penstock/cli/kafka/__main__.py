"""`python -m penstock.cli.kafka kafka-topics ...`: the commands where they are not installed."""

import sys
from collections.abc import Sequence
from importlib import import_module

from penstock.cli.kafka.running import FAILED, say

NAMES = (
    "kafka-acls",
    "kafka-broker-api-versions",
    "kafka-cluster",
    "kafka-configs",
    "kafka-console-consumer",
    "kafka-console-producer",
    "kafka-consumer-groups",
    "kafka-consumer-perf-test",
    "kafka-delete-records",
    "kafka-dump-log",
    "kafka-get-offsets",
    "kafka-leader-election",
    "kafka-log-dirs",
    "kafka-metadata-quorum",
    "kafka-producer-perf-test",
    "kafka-reassign-partitions",
    "kafka-server-start",
    "kafka-server-stop",
    "kafka-storage",
    "kafka-topics",
    "kafka-transactions",
)


def run(name: str, arguments: Sequence[str]) -> int:
    """One command by its name; its exit code."""
    module = import_module(f"penstock.cli.kafka.{name.removeprefix('kafka-').replace('-', '_')}")
    return int(module.main(arguments))


def main() -> int:
    name, *arguments = sys.argv[1:] or [""]
    name = name.removesuffix(".sh")
    if name not in NAMES:
        say(f"{name or 'no name'} is none of the commands: {', '.join(NAMES)}")
        return FAILED
    return run(name, arguments)


if __name__ == "__main__":
    sys.exit(main())
