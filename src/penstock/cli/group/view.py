"""Rows and texts of `penstock group`: pure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.cli.terminal.output import Json, Row, counted
from penstock.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    KafkaError,
    NonEmptyGroup,
    UnknownMemberId,
)
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.coordinator_values import (
        CommittedOffset,
        GroupDescription,
        GroupMember,
    )
    from penstock.client.values import FoundOffset

OFFSET_COLUMNS = (
    "topic",
    "partition",
    "committed",
    "log_start",
    "log_end",
    "lag",
    "member",
    "host",
    "client_id",
)
MEMBER_COLUMNS = ("member", "instance_id", "client_id", "host", "partitions")
STATE_COLUMNS = ("group", "type", "state", "coordinator", "assignor", "member_count")

OffsetsFound = Mapping[TopicPartition, "FoundOffset | KafkaError"]


def lag(committed: int | None, log_start: int | None, log_end: int | None) -> int | None:
    """Return how many records are left to read; None if the offsets are not known.

    Records deleted by retention do not count. A negative lag means that the group has committed
    beyond the end of the log.
    """
    if committed is None or log_end is None:
        return None
    return log_end - max(committed, log_start or 0)


def shown_partitions(
    group: "GroupDescription", committed: Mapping[TopicPartition, "CommittedOffset"]
) -> list[TopicPartition]:
    """Return committed and assigned partitions, in order."""
    assigned = [each for member in group.members for each in member.assigned]
    return sorted(dict.fromkeys([*committed, *assigned]))


def offset_rows(
    group: "GroupDescription",
    committed: Mapping[TopicPartition, "CommittedOffset"],
    starts: OffsetsFound,
    ends: OffsetsFound,
) -> list[Row]:
    """Return a row per partition; the member is None if no member reads it."""
    readers = {each: member for member in group.members for each in member.assigned}
    rows: list[Row] = []
    for each in shown_partitions(group, committed):
        member = readers.get(each)
        offset = committed[each].offset if each in committed else None
        start, end = _known(starts.get(each)), _known(ends.get(each))
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed": offset,
                "log_start": start,
                "log_end": end,
                "lag": lag(offset, start, end),
                "member": member.member_id if member else None,
                "host": member.host if member else None,
                "client_id": member.client_id if member else None,
            }
        )
    return rows


def _known(found: "FoundOffset | KafkaError | None") -> int | None:
    return None if found is None or isinstance(found, KafkaError) else found.offset


def state_row(group: "GroupDescription") -> Row:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "coordinator": group.coordinator,
        "assignor": group.assignor or None,
        "member_count": len(group.members),
    }


def member_row(member: "GroupMember") -> Row:
    assigned: list[Json] = [
        {"topic": each.topic, "partition": each.partition} for each in member.assigned
    ]
    return {
        "member": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assigned": assigned,
    }


def heading(group: "GroupDescription") -> str:
    members = counted(len(group.members), "member")
    name = group.group_id or "''"  # a commit can create a group with an empty name
    return f"{name}  ({group.type}, {group.state}, {members})"


def with_next_step(group: str, error: KafkaError) -> KafkaError:
    """Return the error with a next step."""
    members = f"`penstock group describe {group} --members` shows where they are"
    match error:
        case GroupIdNotFound():
            return GroupIdNotFound(
                f"there is no group {group}; `penstock group list` shows which there are"
            )
        case NonEmptyGroup():
            return NonEmptyGroup(f"the group has members; stop them first: {members}")
        case GroupSubscribedToTopic():
            return GroupSubscribedToTopic(
                f"members of the group read this topic; stop them first: {members}"
            )
        case UnknownMemberId():
            return UnknownMemberId(f"the group has members by now; stop them first: {members}")
        case _:
            return error
