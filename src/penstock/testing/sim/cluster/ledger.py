"""The answers that the clients of a simulated cluster got, as far as they bind the cluster."""

from collections.abc import Container
from dataclasses import dataclass, field

from penstock.model import TopicPartition
from penstock.testing.sim.invariants import require


@dataclass(slots=True)
class TopicFate:
    """One topic, made once under a name of its own."""

    name: str
    topic_id: bytes = b""  # known once the creation is acknowledged
    partitions: int = 0  # at least
    config: str | None = None  # the acknowledged value of actors.CONFIG
    has_asked_config: bool = False
    is_deleted: bool = False  # acknowledged
    is_uncertain: bool = False  # a deletion without an answer


@dataclass(slots=True)
class ClusterLedger:
    """Acknowledged changes and records; `seen` has what readers were given."""

    topics: dict[str, TopicFate] = field(default_factory=dict)
    acknowledged: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    seen: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    producer_ids: dict[int, str] = field(default_factory=dict)
    # Up to these offsets the deletion of records was asked for.
    trimmed: dict[TopicPartition, int] = field(default_factory=dict)
    unbound: Container[TopicPartition] = ()  # partitions that have lost records
    changes: int = 0  # acknowledged ones
    records: int = 0

    def note_producer_id(self, producer_id: int, client: str) -> None:
        other = self.producer_ids.setdefault(producer_id, client)
        require(other is client, f"{client} and {other} got the producer id {producer_id}")

    def note_acknowledged(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        self._note(self.acknowledged, partition, offset, value)
        self.records += 1

    def note_seen(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        self._note(self.seen, partition, offset, value)

    def _note(
        self,
        known: dict[TopicPartition, dict[int, bytes]],
        partition: TopicPartition,
        offset: int,
        value: bytes,
    ) -> None:
        before = known.setdefault(partition, {}).setdefault(offset, value)
        require(
            before == value or partition in self.unbound,
            f"{partition} had {before[:20]!r} at {offset}, and has {value[:20]!r}",
        )

    @property
    def living(self) -> list[TopicFate]:
        """Return the topics whose creation was acknowledged, and whose deletion was not begun."""
        return [
            each
            for each in self.topics.values()
            if each.topic_id and not each.is_deleted and not each.is_uncertain
        ]
