"""Each topic is cut into ranges, one for each of its subscribers, in the order of their ids.

Topics with as many partitions and the same subscribers are cut alike. A member then gets the same
partitions of each, as joins of streams need. Static members come first and are ordered by their
instance ids, so that a restart moves nothing. Members may swap with others that get as
many, if that brings them nearer to the replicas (racks.py).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.coordinator.groups.consumer.assignors.racks import prefer_local
from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Subscriber,
    Subscribers,
)


class _Cut(NamedTuple):
    """Topics that are cut alike: as many partitions, the same subscribers."""

    partitions: int
    subscribers: tuple[int, ...]  # by their indexes among the members

    def piece(self, number: int) -> range:
        share, extra = divmod(self.partitions, len(self.subscribers))
        first = number * share + min(number, extra)
        return range(first, first + share + (1 if number < extra else 0))

    def larger(self) -> int:
        """Return the number of pieces with one partition more; they are the first pieces."""
        return self.partitions % len(self.subscribers)


def _assign_plain(group: Subscribers) -> dict[str, Assignment]:
    return _assign(group, local=False)


def _assign_local(group: Subscribers) -> dict[str, Assignment]:
    return _assign(group, local=True)


assign: Final = prefer_local(_assign_plain, _assign_local)


def _assign(group: Subscribers, *, local: bool) -> dict[str, Assignment]:
    members = sorted(group.members, key=_rank)
    subscribers: dict[bytes, list[int]] = {}
    for index, member in enumerate(members):
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(index)
    cuts: dict[_Cut, list[bytes]] = {}
    for topic in sorted(subscribers):
        cut = _Cut(group.partitions[topic], tuple(subscribers[topic]))
        cuts.setdefault(cut, []).append(topic)
    given: list[dict[bytes, frozenset[int]]] = [{} for _ in members]
    for cut, topics in cuts.items():
        indexes = _nearest(group, members, cut, topics) if local else cut.subscribers
        for number, index in enumerate(indexes):
            piece = frozenset(cut.piece(number))
            if piece:
                given[index].update((topic, piece) for topic in topics)
    return {
        member.member_id: {topic: given[index][topic] for topic in sorted(given[index])}
        for index, member in enumerate(members)
    }


def _nearest(
    group: Subscribers, members: Sequence[Subscriber], cut: _Cut, topics: list[bytes]
) -> list[int]:
    """Return the subscribers in the order of their pieces. Each piece goes to the rack with most of
    its replicas. Members that had larger pieces get larger pieces again."""
    larger = cut.larger()
    order: list[int] = []
    for first, after in ((0, larger), (larger, len(cut.subscribers))):
        waiting: dict[str | None, list[int]] = {}
        for index in reversed(cut.subscribers[first:after]):
            waiting.setdefault(members[index].rack_id, []).append(index)
        for number in range(first, after):
            near: Counter[str | None] = Counter()
            for topic in topics:
                for partition in cut.piece(number):
                    near.update(group.racks_of(topic, partition))
            # Of racks that are as near, the one of whom it would be the turn.
            rack = max(waiting, key=lambda each: (near[each], -waiting[each][-1]))
            order.append(waiting[rack].pop())
            if not waiting[rack]:
                del waiting[rack]
    return order


def _rank(member: Subscriber) -> tuple[bool, str]:
    if member.instance_id is None:
        return True, member.member_id
    return False, member.instance_id
