"""A sender whose batches shrink while the topic rejects them as too large.

Java's producer splits a batch that is too large; librdkafka fails all its records. So another
producer with smaller batches sends these records again, and all later ones.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from penstock.cli.kafka.framework.runner import say
from penstock.cli.kafka.records.topic_sender import NotTaken, TopicSender
from penstock.client.settings import ProducerSettings
from penstock.errors import MessageTooLarge

Reported = Callable[[Any, Any], None]

SHRINK_FACTOR = 4
BATCH_BYTES_DEFAULT = 1_000_000  # librdkafka's


class SplittingSender:
    """Sends values to one topic; calls `reported` once per record, with its final result."""

    def __init__(self, settings: ProducerSettings, topic: str, extra: Mapping[str, Any]) -> None:
        self._settings = settings
        self._topic = topic
        self._extra = extra
        self._batch_bytes = int(str(settings.rdkafka.get("batch.size", BATCH_BYTES_DEFAULT)))
        self._senders = [self._sender({})]
        self._is_last = settings.transactional_id is not None  # a transactional id has one producer

    @property
    def producer(self) -> Any:
        """Return the producer with the smallest batches so far."""
        return self._senders[-1].producer

    def send(self, value: bytes, reported: Reported) -> None:
        """Send a record; raise NotTaken if the producer does not take it."""
        level = len(self._senders) - 1
        self._senders[level].send(value, reported=partial(self._report, level, reported))

    def poll(self, seconds: float) -> None:
        """Serve delivery reports for at most so long."""
        for each in self._senders[:-1]:
            each.producer.poll(0)
        self.producer.poll(seconds)

    def finish(self) -> None:
        """Wait until all records are delivered or failed."""
        for each in self._senders:  # the list grows while the others are flushed
            each.finish()

    def _report(self, level: int, reported: Reported, error: Any, message: Any) -> None:
        if error is None or error.code() != MessageTooLarge.code:
            reported(error, message)
            return
        if level == len(self._senders) - 1:
            if self._is_last:
                reported(error, message)
                return
            self._shrink(len(message))
        try:
            self.send(message.value(), reported)
        except NotTaken:
            reported(error, message)

    def _shrink(self, record_bytes: int) -> None:
        if len(self._senders) == 1:
            say(f"WARN batches are too large for {self._topic} (max.message.bytes) and are split")
        self._batch_bytes //= SHRINK_FACTOR
        self._is_last = self._batch_bytes <= record_bytes
        smaller = {"batch.num.messages": 1} if self._is_last else {"batch.size": self._batch_bytes}
        self._senders.append(self._sender(smaller))

    def _sender(self, smaller: Mapping[str, int]) -> TopicSender:
        return TopicSender(self._settings, self._topic, _ignore, {**self._extra, **smaller})


def _ignore(_error: Any, _message: Any) -> None:
    """Ignore the shared report: every record has its own callback."""
