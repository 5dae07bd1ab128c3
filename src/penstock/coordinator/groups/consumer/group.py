"""The state of a consumer group: its epoch, its members, its target, the owners of partitions.

Replay alone changes it (`replay.py`), but for two volatile flags. Invariants: the target's epoch
never passes the group's; a partition has one owner at most. An instance id belongs to a member of
the group.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.coordinator.events import GroupRequest, TopicVisibility
from penstock.coordinator.groups.consumer.assignors.spec import Assignment
from penstock.coordinator.groups.consumer.member import ConsumerMember, Owned
from penstock.coordinator.groups.consumer.records import member_tombstones, regex_tombstone
from penstock.coordinator.groups.group import IdPartitions, Kind
from penstock.coordinator.records import CoordinatorRecord
from penstock.errors import (
    IllegalGeneration,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from penstock.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from penstock.wire.records.group import (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

CONSUMER_PROTOCOL = "consumer"
# Members are never at epoch 0, which means that they join; nor is a group.
FIRST_EPOCH = 1
NO_TARGET_EPOCH = -1
# Before this version OffsetCommit has no member epoch.
MEMBER_EPOCH_FROM = 9
_NOTHING: Assignment = {}


class ResolvedRegex(NamedTuple):
    """The topics that matched a regular expression at its last resolution."""

    topics: frozenset[str]
    timestamp_ms: int


class ConsumerGroup:
    def __init__(self, group_id: str, epoch: int = FIRST_EPOCH) -> None:
        self.group_id = group_id
        self.epoch = epoch
        self.metadata_hash = 0
        self.has_partition_metadata = False  # a record of older servers, to be removed
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.regexes: dict[str, ResolvedRegex] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.target: dict[str, Assignment] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self._subscribed: frozenset[str] | None = None  # None: to be found out
        # Volatile.
        self.stale = False  # its topics may have changed since the epoch was last looked at
        self.regexes_stale = False  # other topics may match
        # The topics that its expressions may find: those that the client may describe who sent the
        # last heartbeat with one. Another coordinator learns that before it assigns any.
        self.may_describe: TopicVisibility | None = None

    # The CoordinatedGroup protocol

    @property
    def kind(self) -> Kind:
        return "consumer"

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_at(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def empty_since_ms(self) -> int | None:
        return None  # in no record; offsets expire by the time of their commit

    def check_commit(
        self, call: GroupRequest, epoch: int, partitions: IdPartitions | None = None
    ) -> None:
        """Accept a past epoch for partitions that the member has had since then (KIP-1251)."""
        if epoch < 0 and not self.members:
            return  # an administrator, or a consumer that assigns its partitions itself
        member_id, instance_id = call.message.member_id, call.message.group_instance_id
        in_txn = isinstance(call.message, TxnOffsetCommitRequest)
        if in_txn and epoch == -1 and not member_id and instance_id is None:
            return  # old transactional producers name no member
        member = self.member(member_id)
        if not in_txn and member.classic is None and call.version < MEMBER_EPOCH_FROM:
            raise UnsupportedVersion(
                f"members of the consumer protocol commit with v{MEMBER_EPOCH_FROM} or later"
            )
        if epoch < member.epoch and partitions is not None:
            for topic_id, partition in partitions:
                if not _had_since(member, topic_id, partition, epoch):
                    _check_epoch(member, epoch)
        else:
            _check_epoch(member, epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self.member(member_id or ""), member_epoch)

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup(f"the group {self.group_id!r} has members")

    def is_subscribed_to(self, topic: str) -> bool:
        if self._subscribed is None:
            self._subscribed = frozenset().union(
                *(member.topics for member in self.members.values()),
                *(resolved.topics for resolved in self.regexes.values()),
            )
        return topic in self._subscribed

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        by_member = [list(member_tombstones(self.group_id, each)) for each in self.members]
        records = [current for current, _, _ in by_member]
        records += [target for _, target, _ in by_member]
        records.append(
            CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id))
        )
        records += [member for _, _, member in by_member]
        records += [regex_tombstone(self.group_id, regex) for regex in self.regexes]
        if self.has_partition_metadata:
            records.append(
                CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=self.group_id))
            )
        records.append(CoordinatorRecord(ConsumerGroupMetadataKey(group_id=self.group_id)))
        return records

    # Queries

    def member(self, member_id: str) -> ConsumerMember:
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None or instance_id not in self.static_ids:
            return None
        return self.members[self.static_ids[instance_id]]

    def unresolved_regexes(self) -> list[str]:
        """Return the expressions of members whose topics no record holds yet."""
        regexes = dict.fromkeys(member.regex for member in self.members.values())
        return [regex for regex in regexes if regex and regex not in self.regexes]

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, _NOTHING)

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Return the member that has the partition, or has yet to revoke it."""
        partitions = self.owners.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    # Changes, by replay

    def put_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is None or before.topics is not member.topics:
            self._subscribed = None
        if before is not None:
            self._disown(before.member_id, before.assigned)
            self._disown(before.member_id, before.revoking)
            self._leave_instance(before)
        self._own(member.member_id, member.assigned)
        self._own(member.member_id, member.revoking)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._subscribed = None
        self._disown(member_id, member.assigned)
        self._disown(member_id, member.revoking)
        self._leave_instance(member)

    def _leave_instance(self, member: ConsumerMember) -> None:
        # A member that was replaced has left its instance id to another.
        instance_id = member.instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        self.regexes[regex] = resolved
        self._subscribed = None

    def remove_regex(self, regex: str) -> None:
        self.regexes.pop(regex, None)
        self._subscribed = None

    def _own(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            owners = self.owners.setdefault(topic_id, {})
            for partition in partitions:
                # Compaction may have removed the record with which the last owner revoked it: the
                # later record is right.
                owners[partition] = member_id

    def _disown(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[topic_id]


def _had_since(member: ConsumerMember, topic_id: bytes, partition: int, epoch: int) -> bool:
    """Return whether the member has owned the partition since that epoch."""
    for owned in (member.assigned, member.revoking):
        since = owned.get(topic_id, {}).get(partition)
        if since is not None:
            return since <= epoch
    return False


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch == member.epoch:
        return
    expected = f"{epoch} does not match the expected member epoch {member.epoch}."
    if member.classic is not None:
        raise IllegalGeneration(f"The received generation id {expected}")
    raise StaleMemberEpoch(f"The received member epoch {expected}")
