"""The broker as transactions see it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.broker.links.broker_links import BrokerLinks
from penstock.broker.metadata.cluster_metadata import Metadata
from penstock.broker.partitions.partition import Partition
from penstock.config.broker import BrokerConfig
from penstock.controller.image import Image
from penstock.machine.runtime import Runtime
from penstock.world import World

if TYPE_CHECKING:
    from penstock.broker.transactions.transactions import ProducerIdSource
    from penstock.coordinator.groups.machine import GroupCoordinator
    from penstock.coordinator.transactions.machine import TransactionCoordinator


class TransactionCoordinators(Protocol):
    """The coordinators of this node."""

    @property
    def groups(self) -> "Mapping[int, Runtime[GroupCoordinator]]": ...

    def transaction_runtime(self, transactional_id: str) -> "Runtime[TransactionCoordinator]":
        """Return the coordinator of an id; raise NotCoordinator if another node has it."""
        ...


class TransactionsBroker(Protocol):
    world: World
    node_id: int
    config: BrokerConfig
    metadata: Metadata
    image: Image
    producer_ids: "ProducerIdSource"

    links: BrokerLinks

    @property
    def find(self) -> Callable[[str | bytes, int], Partition]: ...

    @property
    def coordinators(self) -> TransactionCoordinators: ...

    def append_now(self) -> None: ...

    def touch_partition(self, partition: Partition) -> None: ...
