"""Steps of a follower: the shell performs each on the log, and reports back."""

from typing import NamedTuple, TypeAlias


class Append(NamedTuple):
    """Append whole batches, then take over the leader's high watermark, then its log start.

    With `restart_at`, the log is empty, or the leader has deleted all its records: the log begins
    again at this offset before the append, because the first batch begins before its end. Without
    records only the two offsets are news, and the follower is not busy.
    """

    records: memoryview
    high_watermark: int
    log_start: int
    restart_at: int | None = None


class TruncateTo(NamedTuple):
    """Remove all records from `offset` on, and the epochs that begin there or later."""

    offset: int


class StartAt(NamedTuple):
    """Remove all records and all epochs; the empty log begins at `offset`."""

    offset: int


class AskEnd(NamedTuple):
    """Ask the leader for its log end: ListOffsets as a replica, latest."""

    leader_epoch: int


class AskStart(NamedTuple):
    """Ask the leader for its log start: ListOffsets as a replica, earliest."""

    leader_epoch: int


class WaitUntil(NamedTuple):
    """Fetch nothing before a time."""

    until_ms: float
    reason: str


class FailReplica(NamedTuple):
    """Fetch nothing in this leader epoch: the log cannot take what the leader has."""

    reason: str


class NewLeaderNeeded(NamedTuple):
    """Fetch nothing in this leader epoch: there is a later one, which the image will tell."""

    leader_epoch: int


FollowerStep: TypeAlias = (
    Append | TruncateTo | StartAt | AskEnd | AskStart | WaitUntil | FailReplica | NewLeaderNeeded
)
