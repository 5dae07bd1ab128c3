"""A consumer's topics that are not there yet: told of once, waited for, asked for again.

librdkafka reports them as errors and looks again after metadata.max.age.ms; Java's client waits in
silence, and has a broker create the topic that it names.
"""

import time
from collections.abc import Callable
from typing import Any

from penstock.cli.kafka.running import say
from penstock.client.failures import UnknownPartition, UnknownTopic, from_rdkafka
from penstock.errors import LeaderNotAvailable, UnknownTopicOrPartition

ASK_EVERY_SECONDS = 1.0
ASK_SECONDS_MAX = 1.0
NOT_THERE_YET = (UnknownTopicOrPartition, LeaderNotAvailable, UnknownTopic, UnknownPartition)


class MissingTopics:
    """Of one consumer of librdkafka.

    `topic` is the one that it names; None for an expression. librdkafka does not go back to a
    partition that it was given and did not find: `assigned` is called when that is there.
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
        """Whether a message's error says no more than that something is missing."""
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
        """Once in a while, if anything is missing; why it will never be there.

        Only a list of all topics reaches a group, and only a named topic is created.
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
            pass  # librdkafka tells of a cluster that does not answer
        return None
