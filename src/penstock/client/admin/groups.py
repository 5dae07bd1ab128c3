"""Classic and consumer groups: their members, and their committed offsets."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.client.admin.coordinator_values import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
)
from penstock.client.admin.group_requests import (
    ask_commit,
    ask_committed,
    ask_committed_of,
    ask_delete_offsets,
    ask_leave,
)
from penstock.client.admin.part import AdminPart, ByPair, Pair, by_partition, partitions_of
from penstock.client.cluster.limits import limited
from penstock.client.cluster.routing import MOVING, KeyType
from penstock.client.keywords import refuse_text
from penstock.client.namespace import Namespace
from penstock.client.transport.connection import Connection
from penstock.errors import (
    GroupIdNotFound,
    InvalidGroupId,
    KafkaError,
    UnstableOffsetCommit,
    UnsupportedVersion,
    error_of,
    from_code,
)
from penstock.model import TopicPartition
from penstock.wire.messages import (
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
    k69_consumer_group_describe,
)
from penstock.wire.primitives import Malformed
from penstock.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    read_consumer_protocol,
)

R = TypeVar("R")

CONSUMER_GROUP_DESCRIBE = 69
# The errors for a classic group. Only a classic group can have an empty name (InvalidGroupId).
NOT_CONSUMER = (GroupIdNotFound, UnsupportedVersion, InvalidGroupId)
STATES_FROM, TYPES_FROM = 4, 5  # versions of ListGroups
CLASSIC, CONSUMER = "classic", "consumer"
CONSUMER_PROTOCOL = "consumer"  # the protocol type of a classic group of consumers
NEW_MEMBER = {0: False, 1: True}  # the type of a member of a consumer group; -1 is unknown


class Groups(AdminPart):
    """Groups, as their coordinators know them: `Admin.groups`."""

    @limited
    def list_all(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """Return the groups of every broker; with filters, those of these states and types."""
        found = self._routes.of_every_broker(
            lambda connection: _ask_listing(connection, states, types)
        )
        listed = [
            GroupListing(
                each.group_id,
                each.group_type.lower(),
                each.group_state,
                each.protocol_type,
                broker,
            )
            for broker, groups in found.items()
            for each in groups
        ]
        return sorted(listed, key=lambda each: each.group_id)

    @limited
    def describe(self, names: Sequence[str]) -> dict[str, GroupDescription | KafkaError]:
        """Return each group, of any type; GroupIdNotFound for a missing one."""
        refuse_text("groups.describe", names)
        namespace = self._routes.namespace
        return self._routes.of_coordinators(
            KeyType.GROUP,
            names,
            lambda coordinator, connection, some: _ask_descriptions(
                coordinator, connection, some, namespace
            ),
        )

    @limited
    def offsets(
        self, name: str, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return all offsets that a group has committed; a missing group has none.

        With `require_stable`, wait for open transactions over these offsets. Raise
        UnstableOffsetCommit if one does not end.
        """
        return self._of_one(
            name,
            lambda connection: ask_committed(connection, name, require_stable),
            (*MOVING, UnstableOffsetCommit),
        )

    @limited
    def offsets_of(
        self, names: Sequence[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | KafkaError]:
        """Return the same of many groups, with one request per coordinator."""
        return self._routes.of_coordinators(
            KeyType.GROUP,
            names,
            lambda _, connection, some: ask_committed_of(connection, some, require_stable),
            (*MOVING, UnstableOffsetCommit),
        )

    @limited
    def commit(
        self, name: str, offsets: ByPair[int | CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets from outside the group, which must have no members."""
        wanted = by_partition(offsets)
        return self._of_one(name, lambda connection: ask_commit(connection, name, wanted))

    @limited
    def delete(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete groups without members, with their committed offsets."""
        refuse_text("groups.delete", names)
        return self._routes.of_coordinators(KeyType.GROUP, names, _ask_delete)

    @limited
    def delete_offsets(
        self, name: str, partitions: Sequence[Pair]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets of topics that no member of the group reads."""
        named = partitions_of(partitions)
        return self._of_one(name, lambda connection: ask_delete_offsets(connection, name, named))

    @limited
    def remove_members(
        self,
        name: str,
        members: Sequence[GroupMember | str] | None = None,
        *,
        reason: str = "",
    ) -> dict[str, KafkaError | None]:
        """Remove members from a group: these, or all.

        A text is the group.instance.id of a static member. Results are by instance id, or by member
        id for dynamic members.
        """
        if members is None:
            group = self.describe([name])[name]
            if isinstance(group, KafkaError):
                raise group
            members = group.members
        return self._of_one(name, lambda connection: ask_leave(connection, name, members, reason))

    def _of_one(
        self,
        name: str,
        ask: Callable[[Connection], R | KafkaError],
        again: tuple[type[KafkaError], ...] = MOVING,
    ) -> R:
        """Ask one group's coordinator. Raise the error of the request."""
        found = self._routes.of_coordinators(
            KeyType.GROUP, [name], lambda _, connection, __: {name: ask(connection)}, again
        )[name]
        if isinstance(found, KafkaError):
            raise found
        return found


def _ask_listing(
    connection: Connection, states: Sequence[str], types: Sequence[str]
) -> list[k16_list_groups.ListedGroup] | KafkaError:
    wire = k16_list_groups
    request = wire.ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    version = connection.version_for(request)
    if (states and version < STATES_FROM) or (types and version < TYPES_FROM):
        return UnsupportedVersion(f"the server at {connection} is too old to filter groups so")
    answer = connection.request(request, wire.ListGroupsResponse)
    return error_of(answer.error_code) or answer.groups


def _ask_descriptions(
    coordinator: int, connection: Connection, names: Sequence[str], namespace: Namespace
) -> dict[str, GroupDescription | KafkaError]:
    """Ask for consumer groups first; groups that the server does not know as such are classic."""
    found: dict[str, GroupDescription | KafkaError] = {}
    if CONSUMER_GROUP_DESCRIBE in connection.versions:
        found = _ask_consumer_groups(coordinator, connection, names)
    missing = GroupIdNotFound()
    classic = [name for name in names if isinstance(found.get(name, missing), NOT_CONSUMER)]
    if classic:
        found.update(_ask_classic_groups(coordinator, connection, classic, namespace))
    return found


def _ask_consumer_groups(
    coordinator: int, connection: Connection, names: Sequence[str]
) -> dict[str, GroupDescription | KafkaError]:
    wire = k69_consumer_group_describe
    request = wire.ConsumerGroupDescribeRequest(group_ids=list(names))
    answer = connection.request(request, wire.ConsumerGroupDescribeResponse)
    return {
        each.group_id: error_of(each.error_code, each.error_message)
        or GroupDescription(
            each.group_id,
            CONSUMER,
            each.group_state,
            each.assignor_name,
            coordinator,
            tuple(_consumer_member(member) for member in each.members),
            CONSUMER_PROTOCOL,
            each.group_epoch,
            each.assignment_epoch,
        )
        for each in answer.groups
    }


def _consumer_member(member: k69_consumer_group_describe.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        _host(member.client_host),
        _partitions(member.assignment),
        tuple(sorted(member.subscribed_topic_names)),
        member.rack_id,
        member.member_epoch,
        _partitions(member.target_assignment),
        NEW_MEMBER.get(member.member_type),
    )


def _partitions(told: k69_consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in told.topic_partitions
            for partition in topic.partitions
        )
    )


def _ask_classic_groups(
    coordinator: int, connection: Connection, names: Sequence[str], namespace: Namespace
) -> dict[str, GroupDescription | KafkaError]:
    wire = k15_describe_groups
    request = wire.DescribeGroupsRequest(groups=list(names))
    answer = connection.request(request, wire.DescribeGroupsResponse)
    found: dict[str, GroupDescription | KafkaError] = {}
    for each in answer.groups:
        if each.error_code:
            found[each.group_id] = from_code(each.error_code, each.error_message)
        elif each.group_state == "Dead":
            found[each.group_id] = GroupIdNotFound()  # the default until version 6
        else:
            found[each.group_id] = GroupDescription(
                each.group_id,
                CLASSIC,
                each.group_state,
                each.protocol_data,
                coordinator,
                tuple(
                    _classic_member(member, each.protocol_type, namespace)
                    for member in each.members
                ),
                each.protocol_type,
            )
    return found


def _classic_member(
    member: k15_describe_groups.DescribedGroupMember, protocol_type: str, namespace: Namespace
) -> GroupMember:
    consumer = protocol_type == CONSUMER_PROTOCOL
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        _host(member.client_host),
        _assigned(member.member_assignment, namespace) if consumer else (),
        _subscribed(member.member_metadata, namespace) if consumer else (),
    )


def _assigned(data: bytes, namespace: Namespace) -> tuple[TopicPartition, ...]:
    """Return the partitions of the members' own assignment; empty before the first one."""
    if not data:
        return ()
    try:
        assignment = read_consumer_protocol(ConsumerProtocolAssignment, data)
    except Malformed:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic, partition)
            for each in assignment.assigned_partitions
            if (topic := namespace.strip(each.topic)) is not None
            for partition in each.partitions
        )
    )


def _subscribed(data: bytes, namespace: Namespace) -> tuple[str, ...]:
    if not data:
        return ()
    try:
        subscription = read_consumer_protocol(ConsumerProtocolSubscription, data)
    except Malformed:
        return ()
    return tuple(sorted(namespace.own(subscription.topics)))


def _host(text: str) -> str:
    """Return the host without the slash that Java writes before an address."""
    return text.removeprefix("/")


def _ask_delete(
    _coordinator: int, connection: Connection, names: Sequence[str]
) -> dict[str, KafkaError | None]:
    wire = k42_delete_groups
    request = wire.DeleteGroupsRequest(groups_names=list(names))
    answer = connection.request(request, wire.DeleteGroupsResponse)
    return {each.group_id: error_of(each.error_code) for each in answer.results}
