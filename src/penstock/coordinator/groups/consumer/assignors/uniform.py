"""Members get equal numbers of partitions, and keep theirs as far as possible.

With equal subscriptions the result is exact. Sizes differ by one at most, and no assignment of such
sizes moves fewer partitions. With different subscriptions each topic is balanced among its own
subscribers. That ends when a round improves nothing, or after a bounded number of rounds. Where
that leaves a choice, members get partitions with a replica in their rack (racks.py).
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from penstock.coordinator.groups.consumer.assignors.racks import (
    hand_out,
    prefer_local,
    remote_last,
)
from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Subscriber,
    Subscribers,
)

Given: TypeAlias = dict[bytes, set[int]]  # partitions by topic

# Subscriptions that overlap in a chain need many rounds; each about halves what is uneven.
ROUNDS_MAX: Final = 16
# So many partitions of a member are looked at for the one that is best given away.
LOOKS_MAX: Final = 64


def _assign_plain(group: Subscribers) -> dict[str, Assignment]:
    if not group.members:
        return {}
    return _assign_alike(group) if group.alike else _Mixed(group).assign()


def _assign_local(group: Subscribers) -> dict[str, Assignment]:
    return _assign_alike_local(group) if group.alike else _MixedLocal(group).assign()


assign: Final = prefer_local(_assign_plain, _assign_local)


def _assign_alike(group: Subscribers) -> dict[str, Assignment]:
    members = group.members
    topics = sorted(members[0].topics)
    free, kept, sizes = _beginning(group, topics)
    share, extra = divmod(sum(group.partitions[topic] for topic in topics), len(members))
    quotas = [share] * len(members)
    # A member with more than the share keeps one more.
    for index in sorted(range(len(members)), key=lambda each: -sizes[each])[:extra]:
        quotas[index] += 1
    for index, quota in enumerate(quotas):
        if sizes[index] > quota:
            _give_back(kept[index], sizes[index] - quota, free)
            sizes[index] = quota
    spare = [(topic, partition) for topic in topics for partition in sorted(free[topic])]
    used = 0
    for index, quota in enumerate(quotas):
        more = spare[used : used + quota - sizes[index]]
        used += len(more)
        for topic, partition in more:
            kept[index].setdefault(topic, set()).add(partition)
    assert used == len(spare), "quotas add up to all partitions"
    return _frozen(members, kept)


def _assign_alike_local(group: Subscribers) -> dict[str, Assignment]:
    """Return assignments of the same sizes that keep as many partitions, with local replicas where
    possible."""
    members = group.members
    topics = sorted(members[0].topics)
    free, kept, sizes = _beginning(group, topics)
    share, extra = divmod(sum(group.partitions[topic] for topic in topics), len(members))
    # A member with more than the share keeps one more; the rest of the larger shares may go to
    # any member.
    larger = [index for index, size in enumerate(sizes) if size > share]
    larger = sorted(larger, key=lambda each: -sizes[each])[:extra]
    rooms = [share - size for size in sizes]
    for index in larger:
        rooms[index] += 1
    for index, room in enumerate(rooms):
        if room < 0:
            for topic, partition in remote_last(group, members[index], kept[index])[room:]:
                _take(kept[index], topic, partition)
                free[topic].add(partition)
            rooms[index] = 0
    extra -= len(larger)
    extras = [int(extra > 0 and size <= share) for size in sizes]

    def give(index: int, each: tuple[bytes, int]) -> None:
        kept[index].setdefault(each[0], set()).add(each[1])

    spare = [(topic, partition) for topic in topics for partition in sorted(free[topic])]
    spare = hand_out(group, spare, rooms, give)
    more = len(spare) - sum(rooms)  # that many of the larger shares are still to be given
    left = hand_out(group, spare, extras, give, limit=more)
    more -= len(spare) - len(left)
    for index in range(len(members)):
        room = rooms[index] + min(extras[index], more)
        more -= min(extras[index], more)
        for each in left[:room]:
            give(index, each)
        del left[:room]
    assert not left and not more, "shares add up to all partitions"
    return _frozen(members, kept)


def _take(given: Given, topic: bytes, partition: int) -> None:
    given[topic].remove(partition)
    if not given[topic]:
        del given[topic]


def _beginning(group: Subscribers, topics: list[bytes]) -> tuple[Given, list[Given], list[int]]:
    """Return the free partitions, and what each member keeps of its own, and how much that is."""
    free = {topic: set(range(group.partitions[topic])) for topic in topics}
    kept = [_keep(member, free) for member in group.members]
    return free, kept, [sum(len(each) for each in given.values()) for given in kept]


def _keep(member: Subscriber, free: Given) -> Given:
    """Return the partitions that a member has and may keep; no other member gets them."""
    kept: Given = {}
    for topic, partitions in member.assigned.items():
        if topic not in member.topics:
            continue
        mine = free[topic] & partitions
        if mine:
            free[topic] -= mine
            kept[topic] = mine
    return kept


def _give_back(given: Given, count: int, free: Given) -> None:
    for topic in sorted(given, reverse=True):
        for partition in sorted(given[topic], reverse=True)[:count]:
            given[topic].remove(partition)
            free[topic].add(partition)
            count -= 1
        if not given[topic]:
            del given[topic]
        if count == 0:
            return


def _frozen(members: Sequence[Subscriber], kept: Sequence[Given]) -> dict[str, Assignment]:
    """Return the old assignment itself to a member that keeps it: most of a group do."""
    return {
        member.member_id: member.assigned
        if given == member.assigned
        else {topic: frozenset(given[topic]) for topic in sorted(given)}
        for member, given in zip(members, kept, strict=True)
    }


class _Mixed:
    """Members that are subscribed to different topics."""

    def __init__(self, group: Subscribers) -> None:
        self._group = group
        self._members = group.members
        self._partitions = group.partitions
        self._subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(group.members):
            for topic in member.topics:
                self._subscribers.setdefault(topic, []).append(index)
        self._topics = sorted(self._subscribers, key=self._urgency)
        self._free, self._given, self._sizes = _beginning(group, self._topics)

    def _urgency(self, topic: bytes) -> tuple[float, int, bytes]:
        """Return the sort key of a topic: topics whose subscribers have the least choice come
        first."""
        subscribers = len(self._subscribers[topic])
        return -self._partitions[topic] / subscribers, subscribers, topic

    def assign(self) -> dict[str, Assignment]:
        for topic in self._topics:
            self._give_out(topic)
        for _ in range(ROUNDS_MAX):
            moved = [self._even_out(topic) for topic in self._topics]
            if not any(moved):
                break
        return _frozen(self._members, self._given)

    def _give_out(self, topic: bytes) -> None:
        """Give the free partitions to the members with the fewest."""
        free = self._free[topic]
        if not free:
            return
        least = [(self._sizes[index], index) for index in self._subscribers[topic]]
        heapify(least)
        takers: list[int] = []
        for _ in free:
            size, index = heappop(least)
            takers.append(index)
            self._sizes[index] = size + 1
            heappush(least, (size + 1, index))
        self._hand_over(topic, takers)
        free.clear()

    def _hand_over(self, topic: bytes, takers: list[int]) -> None:
        """Assign the free partitions of a topic to these members, one for each time a member is
        listed."""
        for partition, index in zip(sorted(self._free[topic]), takers, strict=True):
            self._given[index].setdefault(topic, set()).add(partition)

    def _even_out(self, topic: bytes) -> int:
        """Move partitions of this topic from those with the most to those with the least."""
        sizes, indexes = self._sizes, self._subscribers[topic]
        loads = [sizes[index] for index in indexes]
        if max(loads) - min(loads) <= 1:
            return 0
        least = list(zip(loads, indexes, strict=True))
        most = [(-sizes[index], index) for index in indexes if topic in self._given[index]]
        stocks = {index: sorted(self._given[index][topic]) for _, index in most}
        heapify(least)
        heapify(most)
        moved = 0
        while most:
            _, giver = heappop(most)
            while least[0][0] != sizes[least[0][1]]:
                heappop(least)  # its size has changed, and it stands in the heap a second time
            taker = least[0][1]
            if sizes[giver] - sizes[taker] <= 1:
                break
            self._move(topic, self._choose(topic, stocks[giver], giver, taker), giver, taker)
            moved += 1
            heappush(least, (sizes[giver], giver))
            heappush(least, (sizes[taker], taker))
            if stocks[giver]:
                heappush(most, (-sizes[giver], giver))
        return moved

    def _choose(self, topic: bytes, stock: list[int], giver: int, taker: int) -> int:  # noqa: ARG002
        """Return the partition that a member gives away."""
        return stock.pop()

    def _move(self, topic: bytes, partition: int, giver: int, taker: int) -> None:
        _take(self._given[giver], topic, partition)
        self._given[taker].setdefault(topic, set()).add(partition)
        self._sizes[giver] -= 1
        self._sizes[taker] += 1


class _MixedLocal(_Mixed):
    """Members get equal numbers of each topic; racks choose among the partitions."""

    def _hand_over(self, topic: bytes, takers: list[int]) -> None:
        rooms = [0] * len(self._members)
        for index in takers:
            rooms[index] += 1

        def give(index: int, each: tuple[bytes, int]) -> None:
            self._given[index].setdefault(topic, set()).add(each[1])

        loose = [(topic, partition) for partition in sorted(self._free[topic])]
        left = hand_out(self._group, loose, rooms, give)
        for index in self._subscribers[topic]:
            for each in left[: rooms[index]]:
                give(index, each)
            del left[: rooms[index]]

    def _choose(self, topic: bytes, stock: list[int], giver: int, taker: int) -> int:
        had = self._members[giver].assigned.get(topic, frozenset())
        from_rack, to_rack = self._members[giver].rack_id, self._members[taker].rack_id

        def worth(at: int) -> tuple[bool, int]:
            racks = self._group.racks_of(topic, stock[at])
            return stock[at] not in had, (to_rack in racks) - (from_rack in racks)

        looks = range(len(stock) - 1, max(len(stock) - 1 - LOOKS_MAX, -1), -1)
        return stock.pop(max(looks, key=worth))
