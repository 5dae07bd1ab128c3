"""Racks: members read nearby where that costs nothing else."""

from collections import Counter

import pytest
from consumer_story import Consumer, Story, settle
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import examples
from penstock.coordinator.groups.consumer.assignors import ASSIGNORS
from penstock.coordinator.groups.consumer.assignors.racks import local_count
from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Subscriber,
    Subscribers,
)

TOPICS = [bytes([number]) * 16 for number in range(4)]
RACKS = ["north", "south", "west"]


@st.composite
def groups(draw: st.DrawFn) -> Subscribers:
    """Members that are alike or not, with something already or not, in racks."""
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1))
    topics = sorted(partitions)
    alike = draw(st.booleans())
    some = st.frozensets(st.sampled_from(topics))
    number = draw(st.integers(1, 7))
    members = [
        Subscriber(
            f"m{each:02}",
            draw(st.none() | st.just(f"i{each:02}")),
            frozenset(topics) if alike else draw(some),
            {},
            draw(st.none() | st.sampled_from(RACKS)),
        )
        for each in range(number)
    ]
    owners = {
        (topic, each): draw(st.integers(-1, number - 1))
        for topic in topics
        for each in range(partitions[topic])
    }
    has_something = draw(st.booleans())
    with_targets = [
        member._replace(assigned=_owned(owners, place) if has_something else {})
        for place, member in enumerate(members)
    ]
    racks = {
        topic: [draw(st.frozensets(st.sampled_from(RACKS))) for _ in range(partitions[topic])]
        for topic in topics
    }
    return Subscribers(with_targets, partitions, racks)


def _owned(owners: dict[tuple[bytes, int], int], place: int) -> Assignment:
    found: dict[bytes, set[int]] = {}
    for (topic, partition), owner in owners.items():
        if owner == place:
            found.setdefault(topic, set()).add(partition)
    return {topic: frozenset(each) for topic, each in found.items()}


def without_racks(group: Subscribers) -> Subscribers:
    return group._replace(racks={})


def sizes(targets: dict[str, Assignment]) -> list[int]:
    return sorted(sum(map(len, each.values())) for each in targets.values())


def kept(group: Subscribers, targets: dict[str, Assignment]) -> int:
    return sum(
        len(partitions & targets[member.member_id].get(topic, frozenset()))
        for member in group.members
        for topic, partitions in member.assigned.items()
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(50, few=15))
@given(group=groups())
def test_racks_cost_no_balance(name: str, group: Subscribers) -> None:
    plain = ASSIGNORS[name](without_racks(group))
    assert sizes(ASSIGNORS[name](group)) == sizes(plain)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(50, few=15))
@given(group=groups())
def test_of_each_topic_members_get_as_many_as_without(name: str, group: Subscribers) -> None:
    def by_topic(targets: dict[str, Assignment]) -> Counter[tuple[bytes, int]]:
        return Counter((t, len(p)) for each in targets.values() for t, p in each.items())

    if name == "range" or not group.alike:
        plain = ASSIGNORS[name](without_racks(group))
        assert by_topic(ASSIGNORS[name](group)) == by_topic(plain)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(50, few=15))
@given(group=groups())
def test_racks_move_nothing(name: str, group: Subscribers) -> None:
    plain = ASSIGNORS[name](without_racks(group))
    assert kept(group, ASSIGNORS[name](group)) >= kept(group, plain)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(50, few=15))
@given(group=groups())
def test_with_racks_no_less_is_read_nearby(name: str, group: Subscribers) -> None:
    plain = ASSIGNORS[name](without_racks(group))
    assert local_count(group, ASSIGNORS[name](group)) >= local_count(group, plain)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(50, few=15))
@given(group=groups())
def test_every_partition_that_somebody_wants_is_given_to_one(name: str, group: Subscribers) -> None:
    given_out = Counter(
        (topic, each)
        for targets in ASSIGNORS[name](group).values()
        for topic, partitions in targets.items()
        for each in partitions
    )
    wanted = {topic for member in group.members for topic in member.topics}
    expected = {(topic, each) for topic in wanted for each in range(group.partitions[topic])}
    assert given_out == Counter(expected)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(50, few=15))
@given(group=groups())
def test_the_result_is_at_rest(name: str, group: Subscribers) -> None:
    targets = ASSIGNORS[name](group)
    again = group._replace(
        members=[each._replace(assigned=targets[each.member_id]) for each in group.members]
    )
    after = ASSIGNORS[name](again)
    if name == "range" or group.alike:
        assert after == targets


@settings(max_examples=examples(50, few=15))
@given(group=groups(), others=st.permutations(["a", "b", "c"]))
def test_what_a_rack_is_called_does_not_matter_to_range(
    group: Subscribers, others: list[str]
) -> None:
    called = dict(zip(RACKS, others, strict=True))
    renamed = Subscribers(
        [each._replace(rack_id=called.get(each.rack_id or "")) for each in group.members],
        group.partitions,
        {
            topic: [frozenset(called[rack] for rack in each) for each in racks]
            for topic, racks in group.racks.items()
        },
    )
    assert ASSIGNORS["range"](renamed) == ASSIGNORS["range"](group)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(50, few=15))
@given(group=groups())
def test_members_without_racks_get_what_they_always_got(name: str, group: Subscribers) -> None:
    nowhere = group._replace(members=[each._replace(rack_id=None) for each in group.members])
    assert ASSIGNORS[name](nowhere) == ASSIGNORS[name](without_racks(nowhere))


# By example


def in_racks(*racks: str, topics: frozenset[bytes]) -> list[Subscriber]:
    return [Subscriber(f"m{place}", None, topics, {}, rack) for place, rack in enumerate(racks)]


def test_uniform_gives_everybody_what_is_nearby() -> None:
    t = TOPICS[0]
    members = in_racks("north", "south", "west", topics=frozenset({t}))
    racks = [frozenset({RACKS[-1 - number % 3]}) for number in range(6)]
    group = Subscribers(members, {t: 6}, {t: racks})
    assert ASSIGNORS["uniform"](group) == {
        "m0": {t: frozenset({2, 5})},
        "m1": {t: frozenset({1, 4})},
        "m2": {t: frozenset({0, 3})},
    }


def test_uniform_gives_the_larger_share_where_more_is_nearby() -> None:
    t = TOPICS[0]
    members = in_racks("north", "south", topics=frozenset({t}))
    racks = [frozenset({"south"}), frozenset({"south"}), frozenset({"north"})]
    targets = ASSIGNORS["uniform"](Subscribers(members, {t: 3}, {t: racks}))
    assert targets == {"m0": {t: frozenset({2})}, "m1": {t: frozenset({0, 1})}}


def test_who_has_too_much_gives_back_what_is_far_away() -> None:
    t = TOPICS[0]
    has_all = Subscriber("a", None, frozenset({t}), {t: frozenset(range(4))}, "north")
    newcomer = Subscriber("b", None, frozenset({t}), {}, "south")
    racks = [frozenset({"south"}), frozenset({"north"})] * 2
    targets = ASSIGNORS["uniform"](Subscribers([has_all, newcomer], {t: 4}, {t: racks}))
    assert targets == {"a": {t: frozenset({1, 3})}, "b": {t: frozenset({0, 2})}}


def test_a_full_rack_makes_room_if_others_can_go_elsewhere() -> None:
    t = TOPICS[0]
    members = in_racks("north", "south", "west", topics=frozenset({t}))
    both, north = frozenset({"north", "south"}), frozenset({"north", "west"})
    racks = [both, north, frozenset({"south", "west"})]
    group = Subscribers(members, {t: 3}, {t: racks})
    assert local_count(group, ASSIGNORS["uniform"](group)) == 3


def test_range_changes_places_and_keeps_topics_together() -> None:
    t, u = TOPICS[:2]
    members = in_racks("north", "south", topics=frozenset({t, u}))
    south_first = [frozenset({"south"})] * 2 + [frozenset({"north"})] * 2
    group = Subscribers(members, {t: 4, u: 4}, {t: south_first, u: south_first})
    first, last = frozenset({0, 1}), frozenset({2, 3})
    assert ASSIGNORS["range"](group) == {"m0": {t: last, u: last}, "m1": {t: first, u: first}}


def test_racks_of_members_and_of_replicas_reach_the_assignor() -> None:
    story = Story()
    story.cluster.make("near", 2, ["south"])
    story.cluster.make("far", 2, ["north"])
    first = Consumer(story, "a", "near", "far").join(rack_id="north")
    second = Consumer(story, "b", "near", "far").join(rack_id="south")
    settle(story, first, second)
    assert (sorted(first.has), sorted(second.has)) == (["far-0", "far-1"], ["near-0", "near-1"])
