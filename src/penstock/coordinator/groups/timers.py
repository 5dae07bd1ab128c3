"""The timers of groups: their names, and the events that come when they expire.

An event counts only while its name expects this very event. The decision to replace or cancel a
timer waits for the disk, and the timer may expire meanwhile.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from penstock.coordinator.events import TopicVisibility

# After the log has rejected the records of an expired timer, the timer runs again for this long.
REJECTED_RETRY_MS: Final = 5_000


def session_timer_name(group_id: str, member_id: str) -> str:
    return _member_name(SessionExpired.subject, group_id, member_id)


def _member_name(subject: str, group_id: str, member_id: str) -> str:
    # Both ids may hold any character: quoted, no two pairs make one name.
    return f"{subject} {group_id!r} {member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class GroupTimer:
    """A timer of which a group has one at a time."""

    subject: ClassVar[str]
    group_id: str

    @property
    def name(self) -> str:
        return f"{self.subject} {self.group_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class MemberTimer(GroupTimer):
    """A timer of which a member has one at a time."""

    member_id: str

    @property
    def name(self) -> str:
        return _member_name(self.subject, self.group_id, self.member_id)


# -- classic groups


class SessionExpired(MemberTimer):
    """A member was silent for its session timeout, or never joined with the id given to it."""

    __slots__ = ()
    subject = "classic session"


@dataclass(frozen=True, slots=True, eq=False)
class InitialDelayExpired(GroupTimer):
    """An empty group has waited `delay_ms` for more members, and may wait `remaining_ms` more."""

    subject = "classic join"
    delay_ms: int
    remaining_ms: int


class JoinExpired(GroupTimer):
    """The time for members to rejoin is over."""

    __slots__ = ()
    subject = "classic join"


class SyncExpired(GroupTimer):
    """The time for members to ask for their assignment is over."""

    __slots__ = ()
    subject = "classic sync"


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


# -- consumer groups


class ConsumerSessionExpired(MemberTimer):
    """A member was silent for its session timeout."""

    __slots__ = ()
    subject = "consumer session"


@dataclass(frozen=True, slots=True, eq=False)
class RevocationExpired(MemberTimer):
    """The time of a member to revoke partitions in this epoch is over."""

    subject = "consumer revocation"
    epoch: int


class RejoinExpired(MemberTimer):
    """The time of a classic member to rejoin is over."""

    __slots__ = ()
    subject = "consumer rejoin"


class ConsumerSyncExpired(MemberTimer):
    """The time of a classic member to ask for its assignment is over."""

    __slots__ = ()
    subject = "consumer sync"


@dataclass(frozen=True, slots=True, eq=False)
class RegexUnresolved(GroupTimer):
    """A member of the group has a regular expression without resolved topics."""

    subject = "consumer regexes"
    may_describe: TopicVisibility | None = None


ConsumerTimer: TypeAlias = (
    ConsumerSessionExpired
    | RevocationExpired
    | RejoinExpired
    | ConsumerSyncExpired
    | RegexUnresolved
)
