"""Topics for a measurement, made through an ordinary admin client: both servers take it."""

import logging
import os
import time

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

READY_SECONDS_MAX = 120.0
LIST_AT_ONCE_MAX = 500
SERVERS_DEFAULT = -1  # replicas

# The servers come and go; librdkafka's notes about that are not news.
_silent = logging.getLogger("bench.silent")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}, logger=_silent)


def create(
    bootstrap: str, name: str, partitions: int, config: dict[str, str] | None = None
) -> None:
    """Makes a topic and waits until every partition has a leader that answers.

    What an earlier measurement left dirty is written first: a controller syncs its log before it
    answers, and behind gigabytes of somebody else's pages that takes longer than a client waits.
    """
    os.sync()
    client = admin(bootstrap)
    topic = NewTopic(name, partitions, SERVERS_DEFAULT, config=config or {})
    for future in client.create_topics([topic], operation_timeout=60).values():
        future.result(READY_SECONDS_MAX)
    deadline = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            for first in range(0, partitions, LIST_AT_ONCE_MAX):
                wanted = range(first, min(first + LIST_AT_ONCE_MAX, partitions))
                end_offsets(bootstrap, name, wanted, client)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def delete(bootstrap: str, *names: str) -> None:
    os.sync()
    client = admin(bootstrap)  # must outlive its futures
    for future in client.delete_topics(list(names)).values():
        future.result(READY_SECONDS_MAX)


def end_offsets(
    bootstrap: str, name: str, partitions: range, client: AdminClient | None = None
) -> list[int]:
    """The end offset of each of these partitions."""
    client = client or admin(bootstrap)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the wheel leaves it untyped
    asked = {TopicPartition(name, number): latest for number in partitions}
    futures = client.list_offsets(asked, request_timeout=30)
    found = {place.partition: future.result(30).offset for place, future in futures.items()}
    return [found[number] for number in partitions]
