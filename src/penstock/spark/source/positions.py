"""The position of a query: an offset per partition, in the JSON of checkpoints.

The form is that of Spark's Kafka source, `{"topic": {"0": 12}}`, so that its checkpoints can be
read here. The ids of the topics stand beside (under a name that no topic can have): a recreated
topic has other records at the same offsets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from penstock.model import ZERO_ID, TopicPartition

IDS = "@ids"


class BadPosition(ValueError):
    """A checkpoint holds JSON that is no position."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset of every partition, and the ids of their topics."""

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, bytes] = field(default_factory=dict)  # ZERO_ID: unknown

    def to_json(self) -> dict[str, dict[str, int | str]]:
        topics: dict[str, dict[str, int | str]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        known: dict[str, int | str] = {
            topic: str(UUID(bytes=self.ids[topic]))
            for topic in sorted(self.ids)
            if self.ids[topic] != ZERO_ID
        }
        return {**topics, IDS: known} if known else topics

    @classmethod
    def from_json(cls, value: Mapping[str, Mapping[str, int | str]]) -> "Position":
        offsets: dict[TopicPartition, int] = {}
        ids: dict[str, bytes] = {}
        try:
            for topic, places in value.items():
                if topic == IDS:
                    ids = {name: UUID(str(text)).bytes for name, text in places.items()}
                    continue
                for partition, offset in places.items():
                    offsets[TopicPartition(topic, int(partition))] = int(offset)
        except (AttributeError, TypeError, ValueError):
            raise BadPosition(
                f"the checkpoint holds {json.dumps(value, default=str)}, "
                'which is not {"topic": {"0": 12}}'
            ) from None
        return cls(offsets, ids)

    def same_topic(self, other: "Position", topic: str) -> bool:
        """Return whether both mean the same topic of that name; an unknown id counts as the
        same."""
        mine, theirs = self.ids.get(topic, ZERO_ID), other.ids.get(topic, ZERO_ID)
        return ZERO_ID in (mine, theirs) or mine == theirs
