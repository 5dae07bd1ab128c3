"""Waits for topics of a consumer that do not exist yet.

librdkafka reports missing topics as errors and looks again after metadata.max.age.ms. Java's client
waits silently, and lets a broker create the topic.
"""

import time
from collections.abc import Callable
from typing import Any

from penstock.cli.kafka.framework.runner import say
from penstock.client.failures import UnknownPartition, UnknownTopic, from_rdkafka
from penstock.errors import LeaderNotAvailable, UnknownTopicOrPartition

ASK_EVERY_SECONDS = 1.0
ASK_SECONDS_MAX = 1.0
NOT_THERE_YET = (UnknownTopicOrPartition, LeaderNotAvailable, UnknownTopic, UnknownPartition)


class MissingTopics:
    """Missing topics of one consumer of librdkafka.

    `topic` is None for an expression. librdkafka does not retry an assigned partition that was
    missing, so `assigned` is called when the partition exists.
    """

    def __init__(
        self,
        consumer: Any,
        topic: str | None,
        partition: int | None = None,
        assigned: Callable[[], None] = lambda: None,
    ) -> None:
        from confluent_kafka import KafkaException

        self._consumer = consumer
        self._topic = topic
        self._partition = partition
        self._assigned = assigned
        self._failed: type[Exception] = KafkaException
        self._missing = False
        self._ask_at_s = 0.0

    def only(self, error: Any) -> bool:
        """Return whether an error only means a missing topic or partition."""
        if error is None:
            self._missing = False
            return False
        if not isinstance(from_rdkafka(error), NOT_THERE_YET):
            return False
        if not self._missing:
            say(f"WARN {error.str()}")
        self._missing = True
        return True

    def ask(self) -> Exception | None:
        """Ask for missing topics from time to time; return a permanent error, if any.

        A list of all topics updates the group; a request for one topic creates it.
        """
        if not self._missing or time.monotonic() < self._ask_at_s:
            return None
        self._ask_at_s = time.monotonic() + ASK_EVERY_SECONDS
        try:
            if self._topic is not None:
                found = self._consumer.list_topics(self._topic, timeout=ASK_SECONDS_MAX)
                topic = found.topics[self._topic]
                if topic.error is not None:
                    problem = from_rdkafka(topic.error)
                    return None if isinstance(problem, NOT_THERE_YET) else problem
                if self._partition in topic.partitions:
                    self._missing = False
                    self._assigned()
            self._consumer.list_topics(timeout=ASK_SECONDS_MAX)
        except self._failed:
            pass  # librdkafka reports an unreachable cluster
        return None
