"""The broker as the partitions see it."""

from typing import TYPE_CHECKING, Protocol

from penstock.broker.metadata.cluster_metadata import Metadata
from penstock.broker.settings import BrokerSettings
from penstock.broker.storage.cleaner_offsets import CleanedOffsets
from penstock.config.broker import BrokerConfig
from penstock.controller.image import Image, PartitionImage
from penstock.world import World

if TYPE_CHECKING:
    from penstock.broker.partitions.integrity import Integrity
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.partitions.replicas import Replicas


class PartitionCleaner(Protocol):
    """Compaction of the partitions."""

    def configured(self, partition: "Partition") -> None:
        """Look at a partition whose settings have changed."""
        ...

    def lost(self, partition: "Partition") -> None:
        """Leave a partition alone whose files are damaged."""
        ...


class PartitionMoves(Protocol):
    """Moves of partitions between log directories."""

    def forget(self, partition: "Partition") -> bool:
        """Cancel the move of a deleted partition. Return whether its files are being renamed."""
        ...


class PartitionFollowers(Protocol):
    """Copies of the logs of leaders on other nodes."""

    def follow(self, partition: "Partition", state: PartitionImage) -> None:
        """Fetch from the leader of the image, or from none."""
        ...

    def end(self, partition: "Partition") -> bool:
        """Fetch no more. Return whether the log may be appended to; while a truncation runs, the
        partition takes its role again after that."""
        ...

    def forget(self, partition: "Partition") -> None:
        """Fetch no more: the partition leaves this node."""
        ...


class PartitionsBroker(Protocol):
    world: World
    node_id: int
    config: BrokerConfig
    settings: BrokerSettings
    metadata: Metadata
    image: Image
    replicas: "Replicas"
    integrity: "Integrity"
    cleaned_offsets: CleanedOffsets
    stopping: bool

    @property
    def is_replaced(self) -> bool:
        """Return whether another process is registered with the id of this node."""
        ...

    @property
    def cleaner(self) -> PartitionCleaner: ...

    @property
    def moves(self) -> PartitionMoves: ...

    @property
    def followers(self) -> PartitionFollowers: ...

    def may_be_in_sync(self, node_id: int, broker_epoch: int) -> bool:
        """Return whether a broker serves, in the incarnation with this epoch (-1 for any)."""
        ...

    def live_epoch(self, node_id: int) -> int:
        """Return the epoch of a broker that is not fenced; -1 for all others."""
        ...

    def hosted(self, partition: "Partition") -> None: ...

    def unhosted(self, partition: "Partition") -> None: ...

    def placed(self, partition: "Partition") -> None:
        """Report where a replica is, or that its log is lost."""
        ...

    def clear_caches(self) -> None: ...

    def touch(self) -> None: ...
