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
    @property
    def world(self) -> World: ...

    @property
    def node_id(self) -> int: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def image(self) -> Image: ...

    @property
    def replicas(self) -> "Replicas": ...

    @property
    def integrity(self) -> "Integrity": ...

    @property
    def cleaned_offsets(self) -> CleanedOffsets: ...

    @property
    def cleaner(self) -> PartitionCleaner: ...

    @property
    def moves(self) -> PartitionMoves: ...

    @property
    def stopping(self) -> bool: ...

    def hosted(self, partition: "Partition") -> None: ...

    def unhosted(self, partition: "Partition") -> None: ...

    def clear_caches(self) -> None: ...

    def touch(self) -> None: ...
