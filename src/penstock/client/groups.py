"""Consumer groups, classic and new: who is in them, and what they have committed."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from penstock.client.connection import Connection
from penstock.client.coordinator_values import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
)
from penstock.client.group_offsets import ask_commit, ask_committed, ask_delete_offsets
from penstock.client.routing import MOVING, KeyType, Routes
from penstock.errors import (
    GroupIdNotFound,
    InvalidGroupId,
    KafkaError,
    UnstableOffsetCommit,
    UnsupportedVersion,
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
    read_consumer_protocol,
)

R = TypeVar("R")

CONSUMER_GROUP_DESCRIBE = 69
# What it says of a classic group; the last of one without a name, which only those can be.
NOT_CONSUMER = (GroupIdNotFound, UnsupportedVersion, InvalidGroupId)
STATES_FROM, TYPES_FROM = 4, 5  # versions of ListGroups
CLASSIC, CONSUMER = "classic", "consumer"
CONSUMER_PROTOCOL = "consumer"  # the protocol type of a classic group of consumers


class Groups:
    """Asks each group's coordinator. `Admin.groups` is one of these."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def list_all(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """The groups of every broker, or those in one of the states and of one of the types."""
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

    def describe(self, names: Sequence[str]) -> dict[str, GroupDescription | KafkaError]:
        """Each group, whichever its type; GroupIdNotFound for one that is not there."""
        return self._routes.of_coordinators(KeyType.GROUP, names, _ask_descriptions)

    def offsets(
        self, name: str, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """All that a group has committed; none for a group that is not there.

        With `require_stable` offsets inside an open transaction are waited for, and are
        UnstableOffsetCommit if it does not end.
        """
        return self._of_one(
            name,
            lambda connection: ask_committed(connection, name, require_stable),
            (*MOVING, UnstableOffsetCommit),
        )

    def commit(
        self, name: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit from outside the group, which must have no members."""
        return self._of_one(name, lambda connection: ask_commit(connection, name, offsets))

    def delete(self, names: Sequence[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with all that they have committed."""
        return self._routes.of_coordinators(KeyType.GROUP, names, _ask_delete)

    def delete_offsets(
        self, name: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forget committed offsets of topics that no member of the group reads."""
        return self._of_one(
            name, lambda connection: ask_delete_offsets(connection, name, partitions)
        )

    def _of_one(
        self,
        name: str,
        ask: Callable[[Connection], R | KafkaError],
        again: tuple[type[KafkaError], ...] = MOVING,
    ) -> R:
        """Ask one group's coordinator; what fails as a whole is raised."""
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
    return from_code(answer.error_code) if answer.error_code else answer.groups


def _ask_descriptions(
    coordinator: int, connection: Connection, names: Sequence[str]
) -> dict[str, GroupDescription | KafkaError]:
    """Ask for the new kind first; a group that is none, or a server without them, is classic."""
    found: dict[str, GroupDescription | KafkaError] = {}
    if CONSUMER_GROUP_DESCRIBE in connection.versions:
        found = _ask_consumer_groups(coordinator, connection, names)
    missing = GroupIdNotFound()
    classic = [name for name in names if isinstance(found.get(name, missing), NOT_CONSUMER)]
    if classic:
        found.update(_ask_classic_groups(coordinator, connection, classic))
    return found


def _ask_consumer_groups(
    coordinator: int, connection: Connection, names: Sequence[str]
) -> dict[str, GroupDescription | KafkaError]:
    wire = k69_consumer_group_describe
    request = wire.ConsumerGroupDescribeRequest(group_ids=list(names))
    answer = connection.request(request, wire.ConsumerGroupDescribeResponse)
    return {
        each.group_id: from_code(each.error_code, each.error_message)
        if each.error_code
        else GroupDescription(
            each.group_id,
            CONSUMER,
            each.group_state,
            each.assignor_name,
            coordinator,
            tuple(_consumer_member(member) for member in each.members),
        )
        for each in answer.groups
    }


def _consumer_member(member: k69_consumer_group_describe.Member) -> GroupMember:
    assigned = [
        TopicPartition(topic.topic_name, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    ]
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        _host(member.client_host),
        tuple(sorted(assigned)),
    )


def _ask_classic_groups(
    coordinator: int, connection: Connection, names: Sequence[str]
) -> dict[str, GroupDescription | KafkaError]:
    wire = k15_describe_groups
    request = wire.DescribeGroupsRequest(groups=list(names))
    answer = connection.request(request, wire.DescribeGroupsResponse)
    found: dict[str, GroupDescription | KafkaError] = {}
    for each in answer.groups:
        if each.error_code:
            found[each.group_id] = from_code(each.error_code, each.error_message)
        elif each.group_state == "Dead":
            found[each.group_id] = GroupIdNotFound()  # so until version 6
        else:
            consumers = each.protocol_type == CONSUMER_PROTOCOL
            found[each.group_id] = GroupDescription(
                each.group_id,
                CLASSIC,
                each.group_state,
                each.protocol_data,
                coordinator,
                tuple(_classic_member(member, consumers) for member in each.members),
            )
    return found


def _classic_member(
    member: k15_describe_groups.DescribedGroupMember, consumers: bool
) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        _host(member.client_host),
        _assigned(member.member_assignment) if consumers else (),
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """What consumers agreed on among themselves; nothing while they have not."""
    if not data:
        return ()
    try:
        assignment = read_consumer_protocol(ConsumerProtocolAssignment, data)
    except Malformed:
        return ()
    return tuple(
        sorted(
            TopicPartition(each.topic, partition)
            for each in assignment.assigned_partitions
            for partition in each.partitions
        )
    )


def _host(text: str) -> str:
    """Java writes an address with a slash before it."""
    return text.removeprefix("/")


def _ask_delete(
    _coordinator: int, connection: Connection, names: Sequence[str]
) -> dict[str, KafkaError | None]:
    wire = k42_delete_groups
    request = wire.DeleteGroupsRequest(groups_names=list(names))
    answer = connection.request(request, wire.DeleteGroupsResponse)
    return {
        each.group_id: from_code(each.error_code) if each.error_code else None
        for each in answer.results
    }
