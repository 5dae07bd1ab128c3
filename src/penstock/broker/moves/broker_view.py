"""The broker as moves between log directories see it."""

from collections.abc import Callable
from typing import Protocol

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.settings import BrokerSettings
from penstock.broker.storage.log_dir import LogDirectory
from penstock.world import World


class PausableCleaner(Protocol):
    """Compaction, which must not change a log while the log is copied."""

    def pause(self, partition: Partition, then: Callable[[], None]) -> None: ...

    def resume(self, partition: Partition) -> None: ...

    def claimed_bytes(self, directory: LogDirectory) -> int: ...


class MovesBroker(Protocol):
    world: World
    settings: BrokerSettings
    replicas: Replicas
    stopping: bool

    @property
    def cleaner(self) -> PausableCleaner: ...

    def touch_partition(self, partition: Partition) -> None: ...
