"""Hands the records of `penstock produce` to librdkafka.

What is plain goes in batches: that is the fast way, and knows no headers and no timestamps. Records
keep their order, whichever way they go. Only failures are reported back, one by one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import confluent_kafka as kafka

from penstock.cli.output import CommandFailed, ExitCode
from penstock.cli.produce_input import Chunk
from penstock.cli.produce_json import Entry
from penstock.cli.produce_tally import Tally
from penstock.cli.rdkafka import error_text, silent_logger

POLL_S = 0.05
POLL_EVERY_RECORDS = 1_000
QUEUE_KEY = "queue.buffering.max.messages"
QUEUE_RECORDS_DEFAULT = 100_000


class Target(NamedTuple):
    """Where every record goes, and the headers that it carries."""

    topic: str
    partition: int
    headers: tuple[tuple[str, bytes], ...]


class Sender:
    def __init__(self, settings: Mapping[str, Any], target: Target, tally: Tally) -> None:
        # Successes are what is left when failures are counted: they cost no call each.
        own = {"delivery.report.only.error": True}
        try:
            self._producer = kafka.Producer({**settings, **own}, logger=silent_logger())
        except kafka.KafkaException as problem:
            raise CommandFailed(error_text(problem.args[0]), ExitCode.USAGE) from None
        self._target = target
        self._tally = tally
        self._queue_max = int(settings.get(QUEUE_KEY, QUEUE_RECORDS_DEFAULT))

    @property
    def waiting(self) -> int:
        """How many records are on their way."""
        return len(self._producer)

    def send(self, chunk: Chunk) -> None:
        """Returns when the client has taken them; it may wait for room."""
        if chunk.plain and not self._target.headers:
            self._send_batch(chunk.entries)
        else:
            for number, entry in enumerate(chunk.entries):
                self._send_one(entry)
                if number % POLL_EVERY_RECORDS == 0:
                    self._producer.poll(0)
        self._producer.poll(0)

    def wait(self, seconds: float) -> None:
        """For what is on its way, so long at most."""
        self._producer.flush(seconds)

    def _send_batch(self, entries: list[Entry]) -> None:
        producer, target = self._producer, self._target
        while entries:
            # Room first: what does not fit comes back with an error made for each.
            while len(producer) and len(producer) + len(entries) > self._queue_max:
                producer.poll(POLL_S)
            taken = producer.produce_batch(
                target.topic, entries, target.partition, on_delivery=self._tally.delivery_failed
            )
            self._tally.accepted += taken
            entries = [] if taken == len(entries) else self._left(entries)

    def _left(self, entries: list[Entry]) -> list[Entry]:
        """Those that found no room, in their order; others that were refused are told."""
        left: list[Entry] = []
        for entry in entries:
            error = entry.pop("_error", None)
            if error is None:
                continue
            if error.code() == kafka.KafkaError._QUEUE_FULL:
                left.append(entry)
            else:
                self._tally.refuse(error_text(error))
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
                    # What the command was told counts before what the input says.
                    target.partition if target.partition >= 0 else entry.get("partition", -1),
                    on_delivery=self._tally.delivery_failed,
                    timestamp=entry.get("timestamp", 0),
                    headers=headers or None,
                )
                self._tally.accepted += 1
                return
            except BufferError:
                self._producer.poll(POLL_S)  # the queue is full: wait until something has left
            except kafka.KafkaException as problem:
                self._tally.refuse(error_text(problem.args[0]))
                return
