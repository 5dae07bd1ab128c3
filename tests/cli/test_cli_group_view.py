"""Rows of a group: lag, and a row for every committed or assigned partition."""

import pytest

from penstock.cli.group.view import lag, offset_rows
from penstock.client.admin.coordinator_values import CommittedOffset, GroupDescription, GroupMember
from penstock.client.values import FoundOffset
from penstock.errors import KafkaError, UnknownTopicOrPartition
from penstock.model import TopicPartition

READ, UNREAD, NEW, GONE = (TopicPartition("orders", number) for number in range(4))
MEMBER = GroupMember("m-1", None, "billing", "10.0.0.7", (READ, NEW))
GROUP = GroupDescription("g", "classic", "Stable", "range", 1, (MEMBER,))


@pytest.mark.parametrize(
    ("committed", "log_start", "log_end", "expected"),
    [
        (40, 10, 90, 50),
        (90, 10, 90, 0),
        (5, 10, 90, 80),
        (95, 10, 90, -5),
        (None, 10, 90, None),
        (40, 10, None, None),
        (40, None, 90, 50),
    ],
)
def test_lag_counts_what_can_still_be_read(
    committed: int | None, log_start: int | None, log_end: int | None, expected: int | None
) -> None:
    assert lag(committed, log_start, log_end) == expected


def found(offset: int) -> FoundOffset:
    return FoundOffset(offset, -1, -1)


def test_every_partition_that_is_read_or_committed_has_a_row() -> None:
    committed = {each: CommittedOffset(30, -1, "") for each in (READ, UNREAD, GONE)}
    missing = UnknownTopicOrPartition()
    starts: dict[TopicPartition, FoundOffset | KafkaError]
    ends: dict[TopicPartition, FoundOffset | KafkaError]
    starts = {READ: found(10), UNREAD: found(40), NEW: found(0), GONE: missing}
    ends = {READ: found(90), UNREAD: found(90), NEW: found(8), GONE: missing}
    rows = offset_rows(GROUP, committed, starts, ends)
    assert [(row["partition"], row["committed"], row["lag"], row["member"]) for row in rows] == [
        (0, 30, 60, "m-1"),
        (1, 30, 50, None),
        (2, None, None, "m-1"),
        (3, 30, None, None),
    ]
    assert (rows[0]["host"], rows[0]["client_id"]) == ("10.0.0.7", "billing")
    assert (rows[0]["log_start"], rows[0]["log_end"]) == (10, 90)
