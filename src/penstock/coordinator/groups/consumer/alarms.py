"""The timers of a consumer group: their names, and the events that come back when they end.

An event is compared by identity with the one that is expected under its name. A timer that was
replaced or cancelled may still go off while that decision waits for the disk; it then means
nothing.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

# What an alarm led to was refused by the log: how long until it is tried again.
REFUSED_RETRY_MS: Final = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class MemberSilent:
    """Nothing was heard of a member for as long as its session lasts."""

    group_id: str
    member_id: str

    @property
    def name(self) -> str:
        # Both may hold any character: quoted, no two pairs make one name.
        return f"consumer session {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class RevocationOver:
    """A member had its time to give partitions back, and to leave this epoch."""

    group_id: str
    member_id: str
    epoch: int

    @property
    def name(self) -> str:
        return f"consumer revocation {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class RejoinOver:
    """A classic member was told to rejoin, and had its time."""

    group_id: str
    member_id: str

    @property
    def name(self) -> str:
        return f"consumer rejoin {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class SyncOver:
    """A classic member has joined, and had its time to ask for its assignment."""

    group_id: str
    member_id: str

    @property
    def name(self) -> str:
        return f"consumer sync {self.group_id!r} {self.member_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class RegexUnresolved:
    """A member of the group has an expression whose topics no record holds yet."""

    group_id: str

    @property
    def name(self) -> str:
        return f"consumer regexes {self.group_id!r}"


Alarm: TypeAlias = MemberSilent | RevocationOver | RejoinOver | SyncOver | RegexUnresolved
