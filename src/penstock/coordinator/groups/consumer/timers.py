"""The timers of a consumer group: their names, and the events that come when they expire.

An event counts if it is the very one that is expected under its name. A timer that was replaced or
cancelled may still expire while that decision waits for the disk.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

# After the log has rejected the records of an expired timer, the timer runs again for this long.
REJECTED_RETRY_MS: Final = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerSessionExpired:
    """A member was silent for its session timeout."""

    group_id: str
    member_id: str

    @property
    def name(self) -> str:
        # Both may hold any character: quoted, no two pairs make one name.
        return f"consumer session {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class RevocationExpired:
    """The time of a member to revoke partitions in this epoch is over."""

    group_id: str
    member_id: str
    epoch: int

    @property
    def name(self) -> str:
        return f"consumer revocation {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class RejoinExpired:
    """The time of a classic member to rejoin is over."""

    group_id: str
    member_id: str

    @property
    def name(self) -> str:
        return f"consumer rejoin {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerSyncExpired:
    """The time of a classic member to ask for its assignment is over."""

    group_id: str
    member_id: str

    @property
    def name(self) -> str:
        return f"consumer sync {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class RegexUnresolved:
    """A member of the group has a regular expression without resolved topics."""

    group_id: str

    @property
    def name(self) -> str:
        return f"consumer regexes {self.group_id!r}"


ConsumerTimer: TypeAlias = (
    ConsumerSessionExpired
    | RevocationExpired
    | RejoinExpired
    | ConsumerSyncExpired
    | RegexUnresolved
)
