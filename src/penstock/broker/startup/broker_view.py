"""The broker as its start sees it."""

from collections.abc import Sequence
from typing import Protocol

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.startup.recovery_progress import RecoveryProgress
from penstock.broker.storage.cleaner_offsets import CleanedOffsets
from penstock.broker.storage.log_dir import LogDirectory
from penstock.controller.image import Image
from penstock.world import World


class RequestableMoves(Protocol):
    """Moves between log directories, as a start asks for them again."""

    def ask(
        self, partition: Partition, target: LogDirectory, leftovers: Sequence[str] = ()
    ) -> None: ...


class StartupBroker(Protocol):
    @property
    def world(self) -> World: ...

    @property
    def node_id(self) -> int: ...

    @property
    def image(self) -> Image: ...

    @property
    def replicas(self) -> Replicas: ...

    @property
    def cleaned_offsets(self) -> CleanedOffsets: ...

    @property
    def moves(self) -> RequestableMoves: ...

    @property
    def recovery_progress(self) -> RecoveryProgress: ...
