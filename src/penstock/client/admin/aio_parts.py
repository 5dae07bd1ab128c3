"""Parts of Admin for asyncio: the calls of the blocking parts, awaited.

Generated from the blocking parts by tools/faces.py; `make faces` writes this file again.
"""
# ruff: noqa: B008 - the defaults are frozen values

from collections.abc import Mapping, Sequence

from penstock.client.admin import (
    acls,
    delegation_tokens,
    features,
    groups,
    log_dirs,
    quorum,
    quotas,
    reassignments,
    scram_credentials,
    transactions,
)
from penstock.client.admin.access_values import (
    Acl,
    AclFilter,
    DelegationToken,
    Principal,
    QuotaEntity,
    QuotaFilter,
    ScramCredential,
    ScramDeletion,
    ScramUpsertion,
)
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
from penstock.client.admin.coordinator_values import (
    AbortMarker,
    CommittedOffset,
    FencedProducer,
    GroupDescription,
    GroupListing,
    GroupMember,
    ProducerState,
    TransactionDescription,
    TransactionFilter,
    TransactionListing,
)
from penstock.client.admin.delegation_tokens import SERVERS_CHOICE
from penstock.client.admin.partition_pairs import ByPair, Pair
from penstock.errors import KafkaError
from penstock.model import TopicPartition


class Groups:
    """`Admin.groups` for asyncio: groups.Groups, awaited."""

    def __init__(self, calls: Calls, blocking: groups.Groups) -> None:
        self._calls = calls
        self._blocking = blocking

    async def list_all(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """Return the groups of every broker; with filters, those of these states and types."""
        return await self._calls.do(self._blocking.list_all, states=states, types=types)

    async def describe(self, names: Sequence[str]) -> dict[str, GroupDescription | KafkaError]:
        """Return each group, of any type; GroupIdNotFound for a missing one."""
        return await self._calls.do(self._blocking.describe, names)

    async def offsets(
        self, name: str, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return all offsets that a group has committed; a missing group has none.

        With `require_stable`, wait for open transactions over these offsets. Raise
        UnstableOffsetCommit if one does not end.
        """
        return await self._calls.do(self._blocking.offsets, name, require_stable=require_stable)

    async def offsets_of(
        self, names: Sequence[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | KafkaError]:
        """Return the same of many groups, with one request per coordinator."""
        return await self._calls.do(self._blocking.offsets_of, names, require_stable=require_stable)

    async def commit(
        self, name: str, offsets: ByPair[int | CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets from outside the group, which must have no members."""
        return await self._calls.do(self._blocking.commit, name, offsets)

    async def delete(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete groups without members, with their committed offsets."""
        return await self._calls.do(self._blocking.delete, names)

    async def delete_offsets(
        self, name: str, partitions: Sequence[Pair]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets of topics that no member of the group reads."""
        return await self._calls.do(self._blocking.delete_offsets, name, partitions)

    async def remove_members(
        self, name: str, members: Sequence[GroupMember | str] | None = None, *, reason: str = ""
    ) -> dict[str, KafkaError | None]:
        """Remove members from a group: these, or all.

        A text is the group.instance.id of a static member. Results are by instance id, or by member
        id for dynamic members.
        """
        return await self._calls.do(self._blocking.remove_members, name, members, reason=reason)


class Transactions:
    """`Admin.transactions` for asyncio: transactions.Transactions, awaited."""

    def __init__(self, calls: Calls, blocking: transactions.Transactions) -> None:
        self._calls = calls
        self._blocking = blocking

    async def list_all(
        self, wanted: TransactionFilter = TransactionFilter()
    ) -> list[TransactionListing]:
        """Return the transactional ids of every broker that pass the filter."""
        return await self._calls.do(self._blocking.list_all, wanted)

    async def describe(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Return each transactional id; TransactionalIdNotFound if its coordinator does not know
        it."""
        return await self._calls.do(self._blocking.describe, transactional_ids)

    async def producers(
        self, partitions: Sequence[Pair], *, broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        """Return the producers of each partition, as its leader or the replica on `broker` knows
        them."""
        return await self._calls.do(self._blocking.producers, partitions, broker=broker)

    async def abort(self, marker: AbortMarker) -> KafkaError | None:
        """Write an abort marker into one partition, without the coordinator."""
        return await self._calls.do(self._blocking.abort, marker)

    async def fence(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, FencedProducer | KafkaError]:
        """Fence the producers of transactional ids and abort their open transactions."""
        return await self._calls.do(self._blocking.fence, transactional_ids)


class Reassignments:
    """`Admin.reassignments` for asyncio: reassignments.Reassignments, awaited."""

    def __init__(self, calls: Calls, blocking: reassignments.Reassignments) -> None:
        self._calls = calls
        self._blocking = blocking

    async def list_all(
        self, partitions: Sequence[Pair] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the reassignments under way, of these partitions or of all."""
        return await self._calls.do(self._blocking.list_all, partitions)

    async def alter(
        self, targets: ByPair[Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set the brokers of each partition, the preferred leader first; None cancels a
        reassignment."""
        return await self._calls.do(
            self._blocking.alter,
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
        )


class LogDirs:
    """`Admin.log_dirs` for asyncio: log_dirs.LogDirs, awaited."""

    def __init__(self, calls: Calls, blocking: log_dirs.LogDirs) -> None:
        self._calls = calls
        self._blocking = blocking

    async def describe(
        self, brokers: Sequence[int] | None = None, partitions: Sequence[Pair] | None = None
    ) -> dict[int, dict[str, LogDir | KafkaError] | KafkaError]:
        """Return the directories of each broker by path, with all replicas or those of
        `partitions`."""
        return await self._calls.do(self._blocking.describe, brokers, partitions)

    async def alter(self, targets: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
        """Move replicas to directories of their brokers.

        Return when the brokers have accepted the moves; `describe` shows their progress.
        """
        return await self._calls.do(self._blocking.alter, targets)


class MetadataQuorum:
    """`Admin.quorum` for asyncio: quorum.MetadataQuorum, awaited."""

    def __init__(self, calls: Calls, blocking: quorum.MetadataQuorum) -> None:
        self._calls = calls
        self._blocking = blocking

    async def describe(self) -> QuorumDescription:
        """Return the leader, voters and observers, with the log end offset of each."""
        return await self._calls.do(self._blocking.describe)

    async def add_voter(
        self,
        node_id: int,
        directory_id: bytes,
        listeners: Sequence[QuorumListener],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Add a controller that has caught up as a voter. Raise if `cluster_id` is not this
        cluster's."""
        await self._calls.do(
            self._blocking.add_voter, node_id, directory_id, listeners, cluster_id=cluster_id
        )

    async def remove_voter(
        self, node_id: int, directory_id: bytes, *, cluster_id: str | None = None
    ) -> None:
        """Remove a controller from the voters."""
        await self._calls.do(
            self._blocking.remove_voter, node_id, directory_id, cluster_id=cluster_id
        )


class Features:
    """`Admin.features` for asyncio: features.Features, awaited."""

    def __init__(self, calls: Calls, blocking: features.Features) -> None:
        self._calls = calls
        self._blocking = blocking

    async def describe(self, broker: int | None = None) -> FeatureLevels:
        """Return the levels as one broker knows them; without a number, any broker."""
        return await self._calls.do(self._blocking.describe, broker)

    async def update(
        self, changes: Mapping[str, FeatureChange], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Change feature levels: all or none. From version 2 on, one failure fails the others
        too."""
        return await self._calls.do(self._blocking.update, changes, validate_only=validate_only)


class Acls:
    """`Admin.acls` for asyncio: acls.Acls, awaited."""

    def __init__(self, calls: Calls, blocking: acls.Acls) -> None:
        self._calls = calls
        self._blocking = blocking

    async def describe(self, wanted: AclFilter = AclFilter()) -> list[Acl]:
        """Return the ACLs that the filter finds, sorted."""
        return await self._calls.do(self._blocking.describe, wanted)

    async def create(self, acls: Sequence[Acl]) -> dict[Acl, KafkaError | None]:
        """Create ACLs. Return None for each one that exists now, or its error."""
        return await self._calls.do(self._blocking.create, acls)

    async def delete(
        self, filters: Sequence[AclFilter]
    ) -> dict[AclFilter, dict[Acl, KafkaError | None] | KafkaError]:
        """Delete ACLs. Return the ACLs that each filter found, with None or the error of the
        deletion."""
        return await self._calls.do(self._blocking.delete, filters)


class Quotas:
    """`Admin.quotas` for asyncio: quotas.Quotas, awaited."""

    def __init__(self, calls: Calls, blocking: quotas.Quotas) -> None:
        self._calls = calls
        self._blocking = blocking

    async def describe(
        self, wanted: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the entities that have all these parts; with `strict`, only those parts."""
        return await self._calls.do(self._blocking.describe, wanted, strict=strict)

    async def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set keys of entities; None removes a key."""
        return await self._calls.do(self._blocking.alter, changes, validate_only=validate_only)


class ScramCredentials:
    """`Admin.scram` for asyncio: scram_credentials.ScramCredentials, awaited."""

    def __init__(self, calls: Calls, blocking: scram_credentials.ScramCredentials) -> None:
        self._calls = calls
        self._blocking = blocking

    async def describe(
        self, users: Sequence[str] | None = None
    ) -> dict[str, list[ScramCredential] | KafkaError]:
        """Return the credentials of these users, or of all; ResourceNotFound for a user without
        any."""
        return await self._calls.do(self._blocking.describe, users)

    async def alter(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        """Change credentials. All changes of one user succeed or fail together."""
        return await self._calls.do(self._blocking.alter, changes)


class DelegationTokens:
    """`Admin.tokens` for asyncio: delegation_tokens.DelegationTokens, awaited."""

    def __init__(self, calls: Calls, blocking: delegation_tokens.DelegationTokens) -> None:
        self._calls = calls
        self._blocking = blocking

    async def create(
        self,
        renewers: Sequence[Principal] = (),
        *,
        owner: Principal | None = None,
        lifetime_ms: int = SERVERS_CHOICE,
    ) -> DelegationToken:
        """Create a token for the authenticated principal, or for another owner."""
        return await self._calls.do(
            self._blocking.create, renewers, owner=owner, lifetime_ms=lifetime_ms
        )

    async def renew(self, hmac: bytes, period_ms: int = SERVERS_CHOICE) -> int:
        """Renew a token. Return its new expiry in milliseconds since 1970."""
        return await self._calls.do(self._blocking.renew, hmac, period_ms)

    async def expire(self, hmac: bytes, period_ms: int = SERVERS_CHOICE) -> int:
        """Expire a token now or after a period. Return its expiry in milliseconds since 1970."""
        return await self._calls.do(self._blocking.expire, hmac, period_ms)

    async def describe(self, owners: Sequence[Principal] | None = None) -> list[DelegationToken]:
        """Return the tokens of these owners, or all that this principal may see."""
        return await self._calls.do(self._blocking.describe, owners)
