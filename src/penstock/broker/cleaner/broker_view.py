"""The broker as the cleaner sees it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.broker.partitions.replicas import Replicas
from penstock.broker.storage.cleaner_offsets import CleanedOffsets
from penstock.broker.storage.log_dir import LogDirectory
from penstock.config.broker import BrokerConfig
from penstock.errors import KafkaError
from penstock.world import World

T = TypeVar("T")


class MovesWithClaims(Protocol):
    """Moves between log directories, which need room on the same disks."""

    def claimed_bytes(self, directory: LogDirectory) -> int: ...


class CleanerBroker(Protocol):
    world: World
    config: BrokerConfig
    replicas: Replicas
    cleaned_offsets: CleanedOffsets

    @property
    def moves(self) -> MovesWithClaims: ...

    def when_warm(
        self, look: Callable[[], T], done: Callable[[T], None], failed: Callable[[KafkaError], None]
    ) -> None: ...
