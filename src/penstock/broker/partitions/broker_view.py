"""The broker as the partitions see it."""

from typing import TYPE_CHECKING, Protocol

from penstock.broker.metadata.cluster_metadata import Metadata
from penstock.broker.settings import BrokerSettings
from penstock.broker.storage.cleaner_offsets import CleanedOffsets
from penstock.config.broker import BrokerConfig
from penstock.controller.image import Image
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

    def hosted(self, partition: "Partition") -> None: ...

    def unhosted(self, partition: "Partition") -> None: ...

    def clear_caches(self) -> None: ...

    def touch(self) -> None: ...
