"""Each topic is cut into ranges, one for each of its subscribers, in the order of their ids.

Topics with as many partitions and the same subscribers are cut alike, so that a member gets the
same partitions of each: what joins of streams need. Static members come first and are ordered
by their instance ids, so that a restart moves nothing.
"""

from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Subscriber,
    Subscribers,
)


def assign(group: Subscribers) -> dict[str, Assignment]:
    members = sorted(group.members, key=_rank)
    subscribers: dict[bytes, int] = {}
    for member in members:
        for topic in member.topics:
            subscribers[topic] = subscribers.get(topic, 0) + 1
    turn = dict.fromkeys(subscribers, 0)
    result: dict[str, Assignment] = {}
    for member in members:
        given: dict[bytes, frozenset[int]] = {}
        for topic in sorted(member.topics):
            share, extra = divmod(group.partitions[topic], subscribers[topic])
            place = turn[topic]
            turn[topic] = place + 1
            first = place * share + min(place, extra)
            after = first + share + (1 if place < extra else 0)
            if first < after:
                given[topic] = frozenset(range(first, after))
        result[member.member_id] = given
    return result


def _rank(member: Subscriber) -> tuple[bool, str]:
    if member.instance_id is None:
        return True, member.member_id
    return False, member.instance_id
