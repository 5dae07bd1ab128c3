"""Of two equally good assignments, the one in which more members read from a replica nearby.

Apache Kafka hands racks to its assignors, but its own two do not look at them. Here an assignor
makes its plain assignment, and a second one of the same balance. The second prefers members in the
racks of the replicas. That one is taken if it moves no more and if more of it is local.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Assignor,
    Subscriber,
    Subscribers,
)

TopicIdAndPartition: TypeAlias = tuple[bytes, int]

# A partition that only fits into a full rack may be fitted in by moving others on to theirs; so
# often this is tried. Few sets of racks need that at all, however many partitions there are.
DETOURS_MAX: Final = 1000


def prefer_local(plain: Assignor, local: Assignor) -> Assignor:
    """Return an assignor that chooses between the plain and the local result."""

    def assign(group: Subscribers) -> dict[str, Assignment]:
        first = plain(group)
        if not knows_racks(group):
            return first
        second = local(group)
        if _moved(group, second) > _moved(group, first):
            return first
        return second if local_count(group, second) > local_count(group, first) else first

    return assign


def knows_racks(group: Subscribers) -> bool:
    """Return whether a member and a partition have a rack."""
    return any(member.rack_id is not None for member in group.members) and any(
        any(racks) for racks in group.racks.values()
    )


def local_count(group: Subscribers, targets: Mapping[str, Assignment]) -> int:
    """Return the number of partitions with a replica in the rack of their member."""
    return sum(
        member.rack_id in group.racks_of(topic, partition)
        for member in group.members
        for topic, partitions in targets[member.member_id].items()
        for partition in partitions
    )


def _moved(group: Subscribers, targets: Mapping[str, Assignment]) -> int:
    """Return how many partitions all members together lose."""
    return sum(
        len(partitions - targets[member.member_id].get(topic, frozenset()))
        for member in group.members
        for topic, partitions in member.assigned.items()
    )


def hand_out(
    group: Subscribers,
    loose: Iterable[TopicIdAndPartition],
    rooms: list[int],
    give: Callable[[int, TopicIdAndPartition], None],
    limit: int | None = None,
) -> list[TopicIdAndPartition]:
    """Give partitions to members in the rack of a replica. `rooms` has the free room of each member
    and is updated; `limit` bounds the number of partitions. Return the partitions that fit
    nowhere."""
    members_by_rack: dict[str, list[int]] = {}
    for index, member in enumerate(group.members):
        if member.rack_id is not None and rooms[index] > 0:
            members_by_rack.setdefault(member.rack_id, []).append(index)
    by_racks: dict[tuple[str, ...], list[TopicIdAndPartition]] = {}
    rest: list[TopicIdAndPartition] = []
    for each in loose:
        racks = tuple(sorted(rack for rack in group.racks_of(*each) if rack in members_by_rack))
        (by_racks.setdefault(racks, []) if racks else rest).append(each)
    room = {rack: sum(rooms[index] for index in there) for rack, there in members_by_rack.items()}
    counts = {racks: len(partitions) for racks, partitions in by_racks.items()}
    for (racks, rack), amount in _Flow(counts, room, limit).amounts.items():
        partitions = by_racks[racks]
        for each in partitions[:amount]:
            there = members_by_rack[rack]
            while rooms[there[-1]] == 0:
                there.pop()
            # The emptiest first would be fairer; but who has how much is settled already.
            rooms[there[-1]] -= 1
            give(there[-1], each)
        del partitions[:amount]
    return sorted([*rest, *(each for left in by_racks.values() for each in left)])


class _Flow:
    """How many partitions of each set of racks go to which of these racks: as many as possible."""

    def __init__(
        self, counts: dict[tuple[str, ...], int], room: dict[str, int], limit: int | None
    ) -> None:
        self.amounts: dict[tuple[tuple[str, ...], str], int] = {}
        self._room = room
        self._limit = sum(counts.values()) if limit is None else limit
        self._users: dict[str, list[tuple[str, ...]]] = {}
        for racks in counts:
            for rack in racks:
                self._users.setdefault(rack, []).append(racks)
        # Those with the least choice come first.
        for racks in sorted(counts, key=lambda each: (len(each), each)):
            for rack in racks:
                amount = min(counts[racks], room[rack], self._limit)
                if amount > 0:
                    self._send(racks, rack, amount)
                    counts[racks] -= amount
                    room[rack] -= amount
                    self._limit -= amount
        detours = DETOURS_MAX
        for racks in sorted(counts, key=lambda each: (len(each), each)):
            while counts[racks] > 0 and self._limit > 0 and detours > 0:
                detours -= 1
                if not self._make_room(racks):
                    break
                counts[racks] -= 1
                self._limit -= 1

    def _send(self, racks: tuple[str, ...], rack: str, amount: int) -> None:
        self.amounts[racks, rack] = self.amounts.get((racks, rack), 0) + amount

    def _make_room(self, racks: tuple[str, ...]) -> bool:
        """Send one more from this set: others go on to racks of theirs that have room."""
        came: dict[str, tuple[tuple[str, ...], str | None]] = dict.fromkeys(racks, (racks, None))
        waiting = list(racks)
        for rack in waiting:
            if self._room[rack] > 0:
                self._room[rack] -= 1
                at: str | None = rack
                while at is not None:
                    users, before = came[at]
                    self._send(users, at, 1)
                    if before is not None:
                        self._send(users, before, -1)
                    at = before
                return True
            for users in self._users[rack]:
                if self.amounts.get((users, rack), 0) > 0:
                    for other in users:
                        if other not in came:
                            came[other] = (users, rack)
                            waiting.append(other)
        return False


def remote_last(
    group: Subscribers, member: Subscriber, given: Mapping[bytes, Iterable[int]]
) -> Sequence[TopicIdAndPartition]:
    """Return the partitions of a member, those to give back last. Those are the ones without a
    local replica, and of these the ones local to other members."""
    others = Counter(each.rack_id for each in group.members if each.rack_id != member.rack_id)

    def rank(each: TopicIdAndPartition) -> tuple[bool, bool, TopicIdAndPartition]:
        racks = group.racks_of(*each)
        return member.rack_id not in racks, any(rack in others for rack in racks), each

    return sorted(((topic, each) for topic in given for each in given[topic]), key=rank)
