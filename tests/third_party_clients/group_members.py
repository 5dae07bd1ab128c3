"""Members of groups, run by real clients in the test's thread: polled until something holds."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

SETTLE_SECONDS_MAX = 30.0
POLL_SECONDS = 0.05
HEARTBEAT_MS = 100
# So that nobody waits long to hear of a rebalance.
BRISK_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.assignment.interval.ms": "0",
}

silent = logging.getLogger("tests.silent")
silent.addHandler(logging.NullHandler())
silent.propagate = False


class Member:
    """A librdkafka consumer that notes what it owns and what it has read."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], **config: Any) -> None:
        self.owned: set[tuple[str, int]] = set()
        self.revoked: list[set[tuple[str, int]]] = []
        self.assigned_times = 0
        self.got: list[bytes] = []
        self.errors: list[KafkaError] = []
        settings = {name.replace("_", "."): value for name, value in config.items()}
        if settings.get("group.protocol") != "consumer":  # there the server says how often
            settings["heartbeat.interval.ms"] = HEARTBEAT_MS
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **settings,
            },
            logger=silent,
        )
        self.consumer.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned_times += 1
        self.owned |= {(each.topic, each.partition) for each in partitions}

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        self.revoked.append(gone)
        self.owned -= gone

    def poll(self) -> None:
        message = self.consumer.poll(POLL_SECONDS)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.got.append(message.value() or b"")
        else:
            self.errors.append(error)

    @property
    def fatal(self) -> list[str]:
        return [each.str() for each in self.errors if each.code() == KafkaError._FATAL]

    def close(self) -> None:
        self.consumer.close()


def poll_until(members: Sequence[Member], holds: Callable[[], bool]) -> None:
    """Polls all members by turns, as their applications would, until `holds`."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"not settled: {[each.owned for each in members]}"
        for member in members:
            member.poll()


def everything(topic: str, partitions: int) -> set[tuple[str, int]]:
    return {(topic, number) for number in range(partitions)}


def shared(members: Sequence[Member], topic: str, partitions: int) -> Callable[[], bool]:
    """Every partition has exactly one owner, and every member has some."""

    def holds() -> bool:
        owned = [place for member in members for place in member.owned]
        return (
            len(owned) == partitions
            and set(owned) == everything(topic, partitions)
            and all(member.owned for member in members)
        )

    return holds
