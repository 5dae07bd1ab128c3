"""Groups and transactions for asyncio: groups.py and transactions.py, awaited."""

from collections.abc import Sequence

from penstock.client.admin import groups, transactions
from penstock.client.admin.aio_calls import Calls
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
from penstock.client.admin.pairs import ByPair, Pair
from penstock.errors import KafkaError
from penstock.model import TopicPartition


class Groups:
    """`Admin.groups` is one of these."""

    def __init__(self, calls: Calls, blocking: groups.Groups) -> None:
        self._calls = calls
        self._groups = blocking

    async def list_all(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """The groups of every broker, or those in one of the states and of one of the types."""
        return await self._calls.do(self._groups.list_all, states=states, types=types)

    async def describe(self, names: Sequence[str]) -> dict[str, GroupDescription | KafkaError]:
        """Each group, whichever its type; GroupIdNotFound for one that is not there."""
        return await self._calls.do(self._groups.describe, names)

    async def offsets(
        self, name: str, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """All that a group has committed; none for a group that is not there."""
        return await self._calls.do(self._groups.offsets, name, require_stable=require_stable)

    async def offsets_of(
        self, names: Sequence[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | KafkaError]:
        """The same of many groups, with one request per coordinator."""
        return await self._calls.do(self._groups.offsets_of, names, require_stable=require_stable)

    async def commit(
        self, name: str, offsets: ByPair[int | CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit from outside the group, which must have no members."""
        return await self._calls.do(self._groups.commit, name, offsets)

    async def delete(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with all that they have committed."""
        return await self._calls.do(self._groups.delete, names)

    async def delete_offsets(
        self, name: str, partitions: Sequence[Pair]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forget committed offsets of topics that no member of the group reads."""
        return await self._calls.do(self._groups.delete_offsets, name, partitions)

    async def remove_members(
        self,
        name: str,
        members: Sequence[GroupMember | str] | None = None,
        *,
        reason: str = "",
    ) -> dict[str, KafkaError | None]:
        """Have members leave: these, or every one."""
        return await self._calls.do(self._groups.remove_members, name, members, reason=reason)


class Transactions:
    """`Admin.transactions` is one of these."""

    def __init__(self, calls: Calls, blocking: transactions.Transactions) -> None:
        self._calls = calls
        self._transactions = blocking

    async def list_all(
        self,
        wanted: TransactionFilter = TransactionFilter(),  # noqa: B008 - it is frozen
    ) -> list[TransactionListing]:
        """The transactional ids of every broker that pass the filter."""
        return await self._calls.do(self._transactions.list_all, wanted)

    async def describe(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Each id; TransactionalIdNotFound for one that its coordinator does not know."""
        return await self._calls.do(self._transactions.describe, transactional_ids)

    async def producers(
        self, partitions: Sequence[Pair], *, broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        """Who writes to each partition, as its leader knows it, or the replica on one broker."""
        return await self._calls.do(self._transactions.producers, partitions, broker=broker)

    async def abort(self, marker: AbortMarker) -> KafkaError | None:
        """Write an abort marker into one partition, past the coordinator."""
        return await self._calls.do(self._transactions.abort, marker)

    async def fence(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, FencedProducer | KafkaError]:
        """Take ids away from their producers, and abort what those have open."""
        return await self._calls.do(self._transactions.fence, transactional_ids)
