"""Types for every room: ids, offsets and the names of things.

NewTypes cost a call per value, so the hot path passes plain ints.
"""

import base64
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)
ProducerId = NewType("ProducerId", int)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)  # 16 bytes, as on the wire

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1
ZERO_ID = bytes(16)

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})

# Kafka reserves two ids: the metadata topic and the "unknown" directory family below.
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
TOPIC_NAME_LENGTH_MAX = 249


class TopicPartition(NamedTuple):
    """One partition by name; printed like its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)


def id_to_text(value: bytes) -> str:
    """Return Kafka's text of a 16-byte id: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def id_from_text(text: str) -> bytes:
    """Return the 16 bytes of Kafka's text of an id; raise ValueError for other texts."""
    value = base64.urlsafe_b64decode(text + "==")
    if len(value) != 16:
        raise ValueError(f"{text!r} is not an id: it holds {len(value)} bytes, not 16")
    return value
