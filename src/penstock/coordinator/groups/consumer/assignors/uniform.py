"""Everybody gets as many partitions as the others, and keeps what it has as far as that goes.

With equal subscriptions the result is exact: sizes differ by one at most, and no assignment of
such sizes moves fewer partitions. With different subscriptions topic after topic is evened out
among its own subscribers, until nothing gets better or enough rounds have been made.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Subscriber,
    Subscribers,
)

# Subscriptions that overlap in a chain need many rounds; each about halves what is uneven.
ROUNDS_MAX: Final = 16


def assign(group: Subscribers) -> dict[str, Assignment]:
    if not group.members:
        return {}
    return _assign_alike(group) if group.alike else _Mixed(group).assign()


def _assign_alike(group: Subscribers) -> dict[str, Assignment]:
    members = group.members
    topics = sorted(members[0].topics)
    free = {topic: set(range(group.partitions[topic])) for topic in topics}
    kept = [_keep(member, free) for member in members]
    sizes = [sum(len(each) for each in given.values()) for given in kept]
    share, extra = divmod(sum(group.partitions[topic] for topic in topics), len(members))
    quotas = [share] * len(members)
    # Whoever has more than the share already is the one to keep one more.
    for place in sorted(range(len(members)), key=lambda each: -sizes[each])[:extra]:
        quotas[place] += 1
    for place, quota in enumerate(quotas):
        if sizes[place] > quota:
            _give_back(kept[place], sizes[place] - quota, free)
            sizes[place] = quota
    spare = [(topic, partition) for topic in topics for partition in sorted(free[topic])]
    used = 0
    for place, quota in enumerate(quotas):
        more = spare[used : used + quota - sizes[place]]
        used += len(more)
        for topic, partition in more:
            kept[place].setdefault(topic, set()).add(partition)
    assert used == len(spare), "quotas add up to all partitions"
    return {
        member.member_id: _frozen(member, given)
        for member, given in zip(members, kept, strict=True)
    }


def _keep(member: Subscriber, free: dict[bytes, set[int]]) -> dict[bytes, set[int]]:
    """What a member has and may keep; nobody else may have it then."""
    kept: dict[bytes, set[int]] = {}
    for topic, partitions in member.assigned.items():
        if topic not in member.topics:
            continue
        mine = free[topic] & partitions
        if mine:
            free[topic] -= mine
            kept[topic] = mine
    return kept


def _give_back(given: dict[bytes, set[int]], count: int, free: dict[bytes, set[int]]) -> None:
    for topic in sorted(given, reverse=True):
        for partition in sorted(given[topic], reverse=True)[:count]:
            given[topic].remove(partition)
            free[topic].add(partition)
            count -= 1
        if not given[topic]:
            del given[topic]
        if count == 0:
            return


def _frozen(member: Subscriber, given: dict[bytes, set[int]]) -> Assignment:
    """The assignment itself if it is the old one: most of a group's are."""
    if given == member.assigned:
        return member.assigned
    return {topic: frozenset(given[topic]) for topic in sorted(given)}


class _Mixed:
    """Members that are subscribed to different topics."""

    def __init__(self, group: Subscribers) -> None:
        self._members = group.members
        self._partitions = group.partitions
        self._subscribers: dict[bytes, list[int]] = {}
        for place, member in enumerate(group.members):
            for topic in member.topics:
                self._subscribers.setdefault(topic, []).append(place)
        self._topics = sorted(self._subscribers, key=self._urgency)
        self._free = {topic: set(range(group.partitions[topic])) for topic in self._topics}
        self._given = [_keep(member, self._free) for member in group.members]
        self._sizes = [sum(len(each) for each in given.values()) for given in self._given]

    def _urgency(self, topic: bytes) -> tuple[float, int, bytes]:
        """Topics whose subscribers have the least choice come first."""
        subscribers = len(self._subscribers[topic])
        return -self._partitions[topic] / subscribers, subscribers, topic

    def assign(self) -> dict[str, Assignment]:
        for topic in self._topics:
            self._give_out(topic)
        for _ in range(ROUNDS_MAX):
            moved = [self._even_out(topic) for topic in self._topics]
            if not any(moved):
                break
        return {
            member.member_id: _frozen(member, given)
            for member, given in zip(self._members, self._given, strict=True)
        }

    def _give_out(self, topic: bytes) -> None:
        """The partitions that nobody has, to those who have the least."""
        free = self._free[topic]
        if not free:
            return
        least = [(self._sizes[place], place) for place in self._subscribers[topic]]
        heapify(least)
        for partition in sorted(free):
            size, place = heappop(least)
            self._given[place].setdefault(topic, set()).add(partition)
            self._sizes[place] = size + 1
            heappush(least, (size + 1, place))
        free.clear()

    def _even_out(self, topic: bytes) -> int:
        """Move partitions of this topic from those with the most to those with the least."""
        sizes, places = self._sizes, self._subscribers[topic]
        loads = [sizes[place] for place in places]
        if max(loads) - min(loads) <= 1:
            return 0
        least = list(zip(loads, places, strict=True))
        most = [(-sizes[place], place) for place in places if topic in self._given[place]]
        stocks = {place: sorted(self._given[place][topic]) for _, place in most}
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
            self._move(topic, stocks[giver].pop(), giver, taker)
            moved += 1
            heappush(least, (sizes[giver], giver))
            heappush(least, (sizes[taker], taker))
            if stocks[giver]:
                heappush(most, (-sizes[giver], giver))
        return moved

    def _move(self, topic: bytes, partition: int, giver: int, taker: int) -> None:
        self._given[giver][topic].remove(partition)
        if not self._given[giver][topic]:
            del self._given[giver][topic]
        self._given[taker].setdefault(topic, set()).add(partition)
        self._sizes[giver] -= 1
        self._sizes[taker] += 1
