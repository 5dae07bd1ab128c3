"""The timers of a classic group: their names, and the events that come when they expire.

An event counts if it is the very one that its group expects under that name. A timer that was
replaced or cancelled may still expire while that decision waits for the disk.
"""

from dataclasses import dataclass
from typing import TypeAlias


def session_timer_name(group_id: str, member_id: str) -> str:
    # Both ids may hold any character: quoted, no two pairs make one name.
    return f"classic session {group_id!r} {member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class SessionExpired:
    """A member was silent for its session timeout, or never joined with the id given to it."""

    group_id: str
    member_id: str

    @property
    def name(self) -> str:
        return session_timer_name(self.group_id, self.member_id)


@dataclass(frozen=True, slots=True, eq=False)
class InitialDelayExpired:
    """An empty group has waited `delay_ms` for more members, and may wait `remaining_ms` more."""

    group_id: str
    delay_ms: int
    remaining_ms: int

    @property
    def name(self) -> str:
        return f"classic join {self.group_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class JoinExpired:
    """The time for members to rejoin is over."""

    group_id: str

    @property
    def name(self) -> str:
        return f"classic join {self.group_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class SyncExpired:
    """The time for members to ask for their assignment is over."""

    group_id: str

    @property
    def name(self) -> str:
        return f"classic sync {self.group_id!r}"


ClassicTimer: TypeAlias = SessionExpired | InitialDelayExpired | JoinExpired | SyncExpired


@dataclass(frozen=True, slots=True)
class GroupRecordRejected:
    """The log rejected the record of a group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class AssignmentRejected:
    """The log rejected the record with the assignment of a generation."""

    group_id: str


ClassicEvent: TypeAlias = ClassicTimer | GroupRecordRejected | AssignmentRejected
