"""Reassignments, directories, quorum and features for asyncio: the blocking ones, awaited."""

from collections.abc import Mapping, Sequence

from penstock.client.admin import features, log_dirs, quorum, reassignments
from penstock.client.admin.aio_calls import Calls
from penstock.client.admin.cluster_values import (
    FeatureChange,
    FeatureLevels,
    LogDir,
    QuorumDescription,
    QuorumListener,
    Reassignment,
    Replica,
)
from penstock.client.admin.pairs import ByPair, Pair
from penstock.errors import KafkaError
from penstock.model import TopicPartition


class Reassignments:
    """`Admin.reassignments` is one of these."""

    def __init__(self, calls: Calls, blocking: reassignments.Reassignments) -> None:
        self._calls = calls
        self._reassignments = blocking

    async def list_all(
        self, partitions: Sequence[Pair] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """What is under way, of these partitions or of all."""
        return await self._calls.do(self._reassignments.list_all, partitions)

    async def alter(
        self,
        targets: ByPair[Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Where each partition shall be, its preferred leader first; None cancels."""
        return await self._calls.do(
            self._reassignments.alter,
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
        )


class LogDirs:
    """`Admin.log_dirs` is one of these."""

    def __init__(self, calls: Calls, blocking: log_dirs.LogDirs) -> None:
        self._calls = calls
        self._log_dirs = blocking

    async def describe(
        self,
        brokers: Sequence[int] | None = None,
        partitions: Sequence[Pair] | None = None,
    ) -> dict[int, dict[str, LogDir | KafkaError] | KafkaError]:
        """Per broker its directories by path, with all replicas or only those of `partitions`."""
        return await self._calls.do(self._log_dirs.describe, brokers, partitions)

    async def alter(self, targets: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
        """Move replicas to directories of their brokers."""
        return await self._calls.do(self._log_dirs.alter, targets)


class MetadataQuorum:
    """`Admin.quorum` is one of these."""

    def __init__(self, calls: Calls, blocking: quorum.MetadataQuorum) -> None:
        self._calls = calls
        self._quorum = blocking

    async def describe(self) -> QuorumDescription:
        """Who leads, who votes and who watches, and how far each has come."""
        return await self._calls.do(self._quorum.describe)

    async def add_voter(
        self,
        node_id: int,
        directory_id: bytes,
        listeners: Sequence[QuorumListener],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Let a controller vote that has caught up."""
        await self._calls.do(
            self._quorum.add_voter, node_id, directory_id, listeners, cluster_id=cluster_id
        )

    async def remove_voter(
        self, node_id: int, directory_id: bytes, *, cluster_id: str | None = None
    ) -> None:
        """Take a controller's vote away."""
        await self._calls.do(
            self._quorum.remove_voter, node_id, directory_id, cluster_id=cluster_id
        )


class Features:
    """`Admin.features` is one of these."""

    def __init__(self, calls: Calls, blocking: features.Features) -> None:
        self._calls = calls
        self._features = blocking

    async def describe(self, broker: int | None = None) -> FeatureLevels:
        """As one broker, or any, knows them."""
        return await self._calls.do(self._features.describe, broker)

    async def update(
        self, changes: Mapping[str, FeatureChange], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """All of them or none."""
        return await self._calls.do(self._features.update, changes, validate_only=validate_only)
