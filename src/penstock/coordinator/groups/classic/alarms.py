"""The timers of a classic group: their names, and the events that come back when they end.

An event is compared by identity with the one that its group expects. A timer that was replaced
or cancelled may still go off while that decision waits for the disk; it then means nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class SessionOver:
    """Nothing was heard of a member, or of one that has yet to join with the id it was given."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, eq=False)
class InitialDelayOver:
    """An empty group has waited a little for more members; so much more it may wait."""

    group_id: str
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class JoinOver:
    """Members had their time to rejoin."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False)
class SyncOver:
    """Members had their time to ask for their assignment."""

    group_id: str


@dataclass(frozen=True, slots=True)
class RecordRefused:
    """No timer, but told in the same way: the log did not take the group's record."""

    group_id: str


@dataclass(frozen=True, slots=True)
class AssignmentRefused:
    """The same, for the record with which a generation comes to rest."""

    group_id: str


def session_timer(group_id: str, member_id: str) -> str:
    # Both may hold any character: quoted, no two pairs make one name.
    return f"classic session {group_id!r} {member_id!r}"


def join_timer(group_id: str) -> str:
    return f"classic join {group_id!r}"


def sync_timer(group_id: str) -> str:
    return f"classic sync {group_id!r}"
