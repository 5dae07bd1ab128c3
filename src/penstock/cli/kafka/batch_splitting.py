"""A sender whose batches become smaller while the topic refuses them as too large.

Java's producer splits such a batch and sends its parts; librdkafka fails every record of it. So the
records go out again by a producer with smaller batches, which sends all later records as well.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from penstock.cli.kafka.record_sending import NotTaken, TopicSender
from penstock.cli.kafka.running import say
from penstock.client.settings import ProducerSettings
from penstock.errors import MessageTooLarge

Reported = Callable[[Any, Any], None]

SHRINK_FACTOR = 4
BATCH_BYTES_DEFAULT = 1_000_000  # librdkafka's


class SplittingSender:
    """Sends values to one topic; `reported` hears of each record once, when its end is known."""

    def __init__(self, settings: ProducerSettings, topic: str, extra: Mapping[str, Any]) -> None:
        self._settings = settings
        self._topic = topic
        self._extra = extra
        self._batch_bytes = int(str(settings.rdkafka.get("batch.size", BATCH_BYTES_DEFAULT)))
        self._senders = [self._sender({})]
        self._is_last = settings.transactional_id is not None  # one id has one producer

    @property
    def producer(self) -> Any:
        """librdkafka's, with the smallest batches so far."""
        return self._senders[-1].producer

    def send(self, value: bytes, reported: Reported) -> None:
        """NotTaken if that is the record's end."""
        level = len(self._senders) - 1
        self._senders[level].send(value, reported=partial(self._report, level, reported))

    def poll(self, seconds: float) -> None:
        """Serve what is reported within a time."""
        for each in self._senders[:-1]:
            each.producer.poll(0)
        self.producer.poll(seconds)

    def finish(self) -> None:
        """Wait until everything is delivered, or given up."""
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
    """Every record of a SplittingSender has a function of its own."""
