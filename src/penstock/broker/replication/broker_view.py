"""The broker as replication sees it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.broker.links.broker_links import BrokerLinks
from penstock.broker.metadata.cluster_metadata import Metadata
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.settings import BrokerSettings
from penstock.broker.sliced_work import SlicedWork
from penstock.controller.image import Image
from penstock.errors import KafkaError
from penstock.world import World

T = TypeVar("T")


class PausedCleaner(Protocol):
    """Compaction, which must not change a log while the log is truncated."""

    def pause(self, partition: Partition, then: Callable[[], None]) -> None: ...

    def resume(self, partition: Partition) -> None: ...


class RunningMoves(Protocol):
    """Moves between log directories, which copy a log that must not be truncated meanwhile."""

    def is_moving(self, partition: Partition) -> bool: ...


class ReplicationBroker(Protocol):
    world: World
    node_id: int
    settings: BrokerSettings
    image: Image
    metadata: Metadata
    links: BrokerLinks
    replicas: Replicas
    sliced_work: SlicedWork
    stopping: bool

    @property
    def cleaner(self) -> PausedCleaner: ...

    @property
    def moves(self) -> RunningMoves: ...

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker in the image; -1 if it is not registered."""
        ...

    def touch(self) -> None: ...

    def clear_caches(self) -> None: ...

    def when_warm(
        self, look: Callable[[], T], done: Callable[[T], None], failed: Callable[[KafkaError], None]
    ) -> None: ...
