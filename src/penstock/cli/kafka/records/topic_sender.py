"""librdkafka's producer with the behaviour of Java's producer around it.

Each record waits up to max.block.ms for the partitions of its topic. The configured partitioner
chooses the partition. A record that cannot be taken fails alone.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.cli.kafka.framework.client_options import report_errors_once
from penstock.cli.kafka.framework.runner import CommandRejected, say
from penstock.client.failures import from_rdkafka, is_retriable
from penstock.client.partitioners import LibraryPartitioner, PartitionerRefused, partitioner_of
from penstock.client.producer.sending.encoding import (
    COUNTS_AGE_S_MAX,
    LIBRARY_CHOOSES,
    EncodedRecord,
)
from penstock.client.producer.sending.handle import REQUEST_BYTES_FLOOR
from penstock.client.settings import ProducerSettings
from penstock.errors import KafkaError

POLL_SECONDS = 0.1
FLUSH_SECONDS = 1.0
# Metadata requests are short and repeated, because Ctrl-C waits during one.
ASK_SECONDS_FIRST, ASK_SECONDS_MAX = 0.5, 4.0
ASK_SECONDS_LEAST = 0.001  # librdkafka takes 0 for no limit
# Keys that this sender implements, besides librdkafka.
HANDLED_KEYS = ("buffer.memory", "max.block.ms", "partitioner.class", "partitioner.ignore.keys")

Headers = list[tuple[str, str | bytes | None]]


class NotTaken(Exception):
    """The producer did not take a record; the text has the reason."""


class TopicSender:
    """Sends to one topic; `reported` is called with librdkafka's error or None, and the record."""

    def __init__(
        self,
        settings: ProducerSettings,
        topic: str,
        reported: Callable[[Any, Any], None],
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        from confluent_kafka import KafkaException, Producer

        self.topic = topic
        self._reported = reported
        self._failed: type[Exception] = KafkaException
        self._block_ms = settings.max_block_ms
        self._request_bytes_max = settings.request_bytes_max
        try:
            chooser = partitioner_of(
                settings.partitioner, ignores_keys=settings.partitioner_ignores_keys
            )
        except PartitionerRefused as rejected:
            raise CommandRejected(f"partitioner.class: {rejected}") from None
        wanted: dict[str, Any] = {
            **settings.rdkafka,
            **report_errors_once(self._note_rejection),
            **(extra or {}),
        }
        if isinstance(chooser, LibraryPartitioner):
            wanted["partitioner"] = chooser.name
        self._chooser = None if isinstance(chooser, LibraryPartitioner) else chooser
        self.producer = Producer(wanted)
        self._partition_count = 0
        self._ask_again_at = 0.0
        self._told_of_metadata = False
        self._rejected: Exception | None = None

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers | None = None,
        reported: Callable[[Any, Any], None] | None = None,
    ) -> None:
        """Send a record; raise NotTaken for this record, CommandRejected for a fatal error."""
        if not self._partition_count or self._chooser is not None:
            self._learn()
        if self._request_bytes_max < REQUEST_BYTES_FLOOR:
            self._check_size(value, key, headers)
        partition = LIBRARY_CHOOSES if self._chooser is None else self._chosen(key, value)
        until = 0.0
        while True:
            try:
                self.producer.produce(
                    self.topic,
                    value,
                    key,
                    partition,
                    reported or self._reported,
                    headers=headers or None,
                )
                return
            except BufferError:
                now = time.monotonic()
                until = until or now + self._block_ms / 1000
                if now >= until:
                    raise NotTaken(
                        f"there was no room for it within {self._block_ms} ms (max.block.ms)"
                    ) from None
                self.producer.poll(min(POLL_SECONDS, until - now))
            except self._failed as error:
                raise self._rejection(error) from None

    def finish(self) -> None:
        """Wait until all records are delivered or failed."""
        while self.producer.flush(FLUSH_SECONDS):
            pass

    def _rejection(self, error: Exception) -> Exception:
        from confluent_kafka import KafkaError as Code

        said = error.args[0]
        if said.fatal() or said.code() in (Code._FATAL, Code._STATE):
            return CommandRejected(said.str())
        return NotTaken(said.str())

    def _check_size(self, value: bytes | None, key: bytes | None, headers: Headers | None) -> None:
        """Raise NotTaken beyond max.request.size, if it is lower than librdkafka's minimum."""
        carried = [
            (name, each.encode() if isinstance(each, str) else each) for name, each in headers or ()
        ]
        size = EncodedRecord(self.topic, value, key, LIBRARY_CHOOSES, 0, carried).size_bytes
        if size > self._request_bytes_max:
            raise NotTaken(
                f"it has about {size} bytes, and max.request.size is {self._request_bytes_max}"
            )

    def _chosen(self, key: bytes | None, value: bytes | None) -> int:
        assert self._chooser is not None, "librdkafka chooses"
        try:
            chosen = self._chooser(self.topic, key, value, self._partition_count)
        except Exception as problem:
            raise CommandRejected(
                f"partitioner.class: {type(problem).__name__}: {problem}"
            ) from problem
        if not isinstance(chosen, int) or not 0 <= chosen < self._partition_count:
            raise CommandRejected(
                f"partitioner.class: it chose {chosen!r}, and {self.topic} has "
                f"{self._partition_count} partitions"
            )
        return chosen

    def _note_rejection(self, error: Any) -> None:
        """Keep an authentication error: another request would fail, too."""
        if error.name() == "_AUTHENTICATION":
            self._rejected = from_rdkafka(error)

    # -- partition count

    def _learn(self) -> None:
        """Wait for the number of partitions; a later failed request keeps the known number."""
        began = time.monotonic()
        if began < self._ask_again_at:
            return
        step, left = ASK_SECONDS_FIRST, self._block_ms / 1000
        while True:
            trouble = self._ask(max(min(step, left), ASK_SECONDS_LEAST))
            if trouble is None or self._partition_count:
                self._ask_again_at = time.monotonic() + COUNTS_AGE_S_MAX
                return
            self._report_once(trouble)
            self.producer.poll(0)
            trouble = self._rejected or trouble
            if not is_retriable(trouble):
                raise NotTaken(_said_of(trouble))
            left = began + self._block_ms / 1000 - time.monotonic()
            if left <= 0:
                raise NotTaken(
                    f"Topic {self.topic} not present in metadata after {self._block_ms} ms "
                    f"(max.block.ms): {_said_of(trouble)}"
                )
            self.producer.poll(min(POLL_SECONDS, left))
            step = min(step * 2, ASK_SECONDS_MAX)

    def _ask(self, seconds: float) -> Exception | None:
        """Ask for the number of partitions; return the error, if any."""
        try:
            found = self.producer.list_topics(self.topic, timeout=seconds).topics[self.topic]
        except self._failed as error:
            return from_rdkafka(error.args[0])
        if found.error is not None:
            return from_rdkafka(found.error)
        self._partition_count = len(found.partitions)
        return None

    def _report_once(self, trouble: Exception) -> None:
        """Print an error of the topic once; librdkafka reports an unreachable cluster itself."""
        if isinstance(trouble, KafkaError) and not self._told_of_metadata:
            self._told_of_metadata = True
            say(f"WARN Error while fetching metadata: {{{self.topic}={trouble.kafka_name()}}}")


def _said_of(trouble: Exception) -> str:
    return trouble.kafka_name() if isinstance(trouble, KafkaError) else str(trouble)
