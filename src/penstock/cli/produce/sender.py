"""Hands the records of `penstock produce` to librdkafka.

Plain records go in batches, which are fast and have no headers and timestamps; others go one by
one. Both keep the order of records. librdkafka reports failures only.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import confluent_kafka as kafka

from penstock.cli.connection.rdkafka import error_text, silent_logger
from penstock.cli.produce.input_chunks import InputChunk
from penstock.cli.produce.json_lines import Entry
from penstock.cli.produce.progress import Tally
from penstock.cli.terminal.output import WrongUsage

POLL_S = 0.05
POLL_EVERY_RECORDS = 1_000
QUEUE_KEY = "queue.buffering.max.messages"
QUEUE_RECORDS_DEFAULT = 100_000


class Target(NamedTuple):
    """The topic, the partition and the headers of every record."""

    topic: str
    partition: int
    headers: tuple[tuple[str, bytes], ...]


class RecordSender:
    def __init__(self, settings: Mapping[str, Any], target: Target, tally: Tally) -> None:
        # Only failures call back; the others are successes.
        own = {"delivery.report.only.error": True}
        try:
            self._producer = kafka.Producer({**settings, **own}, logger=silent_logger())
        except kafka.KafkaException as problem:
            raise WrongUsage(error_text(problem.args[0])) from None
        self._target = target
        self._tally = tally
        self._queue_max = int(settings.get(QUEUE_KEY, QUEUE_RECORDS_DEFAULT))

    @property
    def waiting(self) -> int:
        """Return how many records are in flight."""
        return len(self._producer)

    def send(self, chunk: InputChunk) -> None:
        """Hand a chunk to the client; wait while its queue is full."""
        if chunk.plain and not self._target.headers:
            self._send_batch(chunk.entries)
        else:
            for number, entry in enumerate(chunk.entries):
                self._send_one(entry)
                if number % POLL_EVERY_RECORDS == 0:
                    self._producer.poll(0)
        self._producer.poll(0)

    def wait(self, seconds: float) -> None:
        """Wait for the records in flight, at most so long."""
        self._producer.flush(seconds)

    def _send_batch(self, entries: list[Entry]) -> None:
        producer, target = self._producer, self._target
        while entries:
            # Wait for room: librdkafka creates an error for each record that does not fit.
            while len(producer) and len(producer) + len(entries) > self._queue_max:
                producer.poll(POLL_S)
            taken = producer.produce_batch(
                target.topic, entries, target.partition, on_delivery=self._tally.delivery_failed
            )
            self._tally.accepted += taken
            entries = [] if taken == len(entries) else self._without_room(entries)

    def _without_room(self, entries: list[Entry]) -> list[Entry]:
        """Return the records that did not fit, in their order; count the rejected ones."""
        left: list[Entry] = []
        for entry in entries:
            error = entry.pop("_error", None)
            if error is None:
                continue
            if error.code() == kafka.KafkaError._QUEUE_FULL:
                left.append(entry)
            else:
                self._tally.reject(error_text(error))
        if left:
            self._producer.poll(POLL_S)
        return left

    def _send_one(self, entry: Entry) -> None:
        target = self._target
        headers = [*target.headers, *entry.get("headers", ())]
        while True:
            try:
                self._producer.produce(
                    target.topic,
                    entry.get("value"),
                    entry.get("key"),
                    # --partition overrides the partition in the input.
                    target.partition if target.partition >= 0 else entry.get("partition", -1),
                    on_delivery=self._tally.delivery_failed,
                    timestamp=entry.get("timestamp", 0),
                    headers=headers or None,
                )
                self._tally.accepted += 1
                return
            except BufferError:
                self._producer.poll(POLL_S)  # the queue is full: wait for room
            except kafka.KafkaException as problem:
                self._tally.reject(error_text(problem.args[0]))
                return
