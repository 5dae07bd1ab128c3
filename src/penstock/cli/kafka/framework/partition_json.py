"""Kafka's files that list partitions: {"partitions": [{"topic": "orders", "partition": 0}]}."""

import json
from collections.abc import Sequence
from typing import Any

from penstock.cli.kafka.framework.client_options import read_file
from penstock.cli.kafka.framework.runner import CommandRejected
from penstock.model import TopicPartition

VERSION = 1


def read_partitions(path: str) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """Return each partition with its JSON object; raise CommandRejected with the reason."""
    said = read_object(path)
    if said.get("version", VERSION) != VERSION:
        raise CommandRejected(f"{path}: Not supported version field value {said.get('version')}")
    if "partitions" not in said:
        raise CommandRejected(f'{path}: Missing partitions field: {{"partitions": [...]}}')
    found: list[tuple[TopicPartition, dict[str, Any]]] = []
    if not isinstance(said["partitions"], list):
        raise CommandRejected(f'{path}: partitions is no list: {{"partitions": [...]}}')
    for each in said["partitions"]:
        match each:
            case {"topic": str(topic), "partition": int(partition)}:
                found.append((TopicPartition(topic, partition), each))
            case _:
                raise CommandRejected(f"{path}: {json.dumps(each)} is not topic and partition")
    return found


def read_object(path: str) -> dict[str, Any]:
    try:
        said = json.loads(read_file(path))
    except ValueError as problem:
        raise CommandRejected(f"{path}: is not a valid JSON: {problem}") from None
    if not isinstance(said, dict):
        raise CommandRejected(f"{path}: is not a JSON object")
    return said


def listed_twice(partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    return sorted({each for each in partitions if partitions.count(each) > 1})
