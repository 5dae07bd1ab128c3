"""Topics that a Metadata request creates (auto.create.topics.enable).

As in Kafka, a request does not wait: the client gets UNKNOWN_TOPIC_OR_PARTITION and asks again. An
error of the controller reaches the node's log only.
"""

import logging
from collections.abc import Iterable

from penstock.broker.metadata.cluster_metadata import Metadata
from penstock.credentials.principal import Caller
from penstock.errors import KafkaError, TopicAlreadyExists, from_code
from penstock.summed_log import SummedLog
from penstock.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

log = logging.getLogger("penstock.topics")

CREATE_TOPICS_VERSION = 7
CREATE_TIMEOUT_MS = 30_000
FROM_DEFAULTS = -1


class AutoTopics:
    """Creations under way, one at a time per name."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._creating: set[str] = set()
        self.lines = SummedLog(log)  # a client may ask for any number

    def create(self, names: Iterable[str], caller: Caller) -> None:
        """Begin to create topics from the defaults for a caller, except those under way."""
        new = [name for name in names if name not in self._creating]
        if not new:
            return
        self._creating.update(new)
        topics = [
            CreatableTopic(
                name=name, num_partitions=FROM_DEFAULTS, replication_factor=FROM_DEFAULTS
            )
            for name in new
        ]
        create = CreateTopicsRequest(topics=topics, timeout_ms=CREATE_TIMEOUT_MS)

        def created(result: CreateTopicsResponse | KafkaError) -> None:
            self._creating.difference_update(new)
            if isinstance(result, KafkaError):
                self._warn(", ".join(new[:10]), result)
                return
            for each in result.topics:
                if each.error_code not in (0, TopicAlreadyExists.code):
                    self._warn(each.name, from_code(each.error_code, each.error_message))

        self._metadata.submit(create, CREATE_TOPICS_VERSION, created, caller)

    def _warn(self, names: str, error: KafkaError) -> None:
        words = "%s cannot be created on request of a client: %s"
        self.lines.log(logging.WARNING, words, words, names, error)
