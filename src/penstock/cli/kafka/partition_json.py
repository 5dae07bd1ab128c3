"""Kafka's files that list partitions: {"partitions": [{"topic": "orders", "partition": 0}]}."""

import json
from collections.abc import Sequence
from typing import Any

from penstock.cli.kafka.connecting import read_file
from penstock.cli.kafka.running import CommandRefused
from penstock.model import TopicPartition

VERSION = 1


def read_partitions(path: str) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """Each partition with all that is said about it; CommandRefused says what is wrong."""
    said = read_object(path)
    if said.get("version", VERSION) != VERSION:
        raise CommandRefused(f"{path}: Not supported version field value {said.get('version')}")
    if "partitions" not in said:
        raise CommandRefused(f'{path}: Missing partitions field: {{"partitions": [...]}}')
    found: list[tuple[TopicPartition, dict[str, Any]]] = []
    if not isinstance(said["partitions"], list):
        raise CommandRefused(f'{path}: partitions is no list: {{"partitions": [...]}}')
    for each in said["partitions"]:
        match each:
            case {"topic": str(topic), "partition": int(partition)}:
                found.append((TopicPartition(topic, partition), each))
            case _:
                raise CommandRefused(f"{path}: {json.dumps(each)} is not topic and partition")
    return found


def read_object(path: str) -> dict[str, Any]:
    try:
        said = json.loads(read_file(path))
    except ValueError as problem:
        raise CommandRefused(f"{path}: is not a valid JSON: {problem}") from None
    if not isinstance(said, dict):
        raise CommandRefused(f"{path}: is not a JSON object")
    return said


def listed_twice(partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    return sorted({each for each in partitions if partitions.count(each) > 1})
