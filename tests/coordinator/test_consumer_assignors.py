"""The assignors: who is to have what, and how little moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.groups.consumer.assignors import ASSIGNORS
from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Subscriber,
    Subscribers,
)

TOPICS = [bytes([number]) * 16 for number in range(6)]

sizes = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)


@st.composite
def groups(draw: st.DrawFn, *, alike: bool) -> Subscribers:
    partitions = draw(sizes)
    topics = sorted(partitions)
    wanted = st.frozensets(st.sampled_from(topics))
    members = [
        Subscriber(
            f"m{number:02}",
            draw(st.none() | st.just(f"i{number:02}")),
            frozenset(topics) if alike else draw(wanted),
            {},
        )
        for number in range(draw(st.integers(1, 9)))
    ]
    return Subscribers(members, partitions)


def with_targets(group: Subscribers, targets: dict[str, Assignment]) -> list[Subscriber]:
    return [each._replace(assigned=targets.get(each.member_id, {})) for each in group.members]


def size(assignment: Assignment) -> int:
    return sum(len(partitions) for partitions in assignment.values())


def check_everything_is_given_once(group: Subscribers, targets: dict[str, Assignment]) -> None:
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.members:
        for topic, partitions in targets[member.member_id].items():
            assert topic in member.topics, "nobody gets what it does not want"
            assert partitions, "no topic without partitions"
            for partition in partitions:
                assert owners.setdefault((topic, partition), member.member_id) == member.member_id
    wanted = {topic for member in group.members for topic in member.topics}
    expected = {(topic, each) for topic in wanted for each in range(group.partitions[topic])}
    assert owners.keys() == expected


def moved(before: dict[str, Assignment], after: dict[str, Assignment]) -> int:
    """Partitions that had an owner and have another one now."""
    owner = {
        (topic, partition): member_id
        for member_id, assignment in before.items()
        for topic, partitions in assignment.items()
        for partition in partitions
    }
    return sum(
        owner.get((topic, partition), member_id) != member_id
        for member_id, assignment in after.items()
        for topic, partitions in assignment.items()
        for partition in partitions
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("alike", [True, False])
@given(data=st.data())
def test_every_partition_that_somebody_wants_is_given_to_one(
    name: str, alike: bool, data: st.DataObject
) -> None:
    group = data.draw(groups(alike=alike))
    check_everything_is_given_once(group, ASSIGNORS[name](group))


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("alike", [True, False])
@given(data=st.data())
def test_whatever_was_before_everything_is_given_once(
    name: str, alike: bool, data: st.DataObject
) -> None:
    first = data.draw(groups(alike=True))
    second = data.draw(groups(alike=alike))
    targets = ASSIGNORS["uniform"](first)
    again = Subscribers(with_targets(second, targets), second.partitions)
    check_everything_is_given_once(again, ASSIGNORS[name](again))


@given(groups(alike=True))
def test_uniform_gives_everybody_as_much_up_to_one(group: Subscribers) -> None:
    given_out = [size(each) for each in ASSIGNORS["uniform"](group).values()]
    assert max(given_out) - min(given_out) <= 1


@given(groups(alike=True))
def test_uniform_moves_nothing_without_a_reason(group: Subscribers) -> None:
    targets = ASSIGNORS["uniform"](group)
    again = Subscribers(with_targets(group, targets), group.partitions)
    assert ASSIGNORS["uniform"](again) == targets


@given(groups(alike=False))
def test_uniform_moves_nothing_without_a_reason_among_different_members(
    group: Subscribers,
) -> None:
    targets = ASSIGNORS["uniform"](group)
    again = Subscribers(with_targets(group, targets), group.partitions)
    assert ASSIGNORS["uniform"](again) == targets


@given(groups(alike=True), st.data())
def test_a_newcomer_gets_its_share_and_nothing_else_moves(
    group: Subscribers, data: st.DataObject
) -> None:
    before = ASSIGNORS["uniform"](group)
    topics = group.members[0].topics
    name = data.draw(st.sampled_from(["a", "m00x", "z"]))
    members = sorted([*with_targets(group, before), Subscriber(name, None, topics, {})])
    after = ASSIGNORS["uniform"](Subscribers(members, group.partitions))
    assert moved(before, after) == size(after[name])
    assert size(after[name]) <= -(-sum(group.partitions.values()) // len(members))


@given(groups(alike=True), st.data())
def test_who_leaves_moves_only_what_it_had(group: Subscribers, data: st.DataObject) -> None:
    before = ASSIGNORS["uniform"](group)
    leaving = data.draw(st.sampled_from(group.members)).member_id
    members = [each for each in with_targets(group, before) if each.member_id != leaving]
    after = ASSIGNORS["uniform"](Subscribers(members, group.partitions))
    assert members == [] or moved(before, after) == size(before[leaving])


@given(groups(alike=True), sizes)
def test_no_assignment_of_such_sizes_moves_less(
    group: Subscribers, grown: dict[bytes, int]
) -> None:
    before = ASSIGNORS["uniform"](group)
    partitions = {topic: count + grown.get(topic, 0) for topic, count in group.partitions.items()}
    members = with_targets(group, before)
    after = ASSIGNORS["uniform"](Subscribers(members, partitions))
    share, extra = divmod(sum(partitions.values()), len(members))
    had = sorted((size(before[each.member_id]) for each in members), reverse=True)
    # The larger shares go best to those who have the most.
    least = sum(
        max(0, count - share - (1 if place < extra else 0)) for place, count in enumerate(had)
    )
    assert moved(before, after) == least


def test_uniform_evens_out_among_the_subscribers_of_each_topic() -> None:
    t, u = TOPICS[:2]
    members = [
        Subscriber("a", None, frozenset({t}), {}),
        Subscriber("b", None, frozenset({t, u}), {}),
        Subscriber("c", None, frozenset({u}), {}),
    ]
    targets = ASSIGNORS["uniform"](Subscribers(members, {t: 6, u: 6}))
    assert sorted(size(each) for each in targets.values()) == [4, 4, 4]


def test_uniform_takes_from_who_has_the_most() -> None:
    t, u = TOPICS[:2]
    both = frozenset({t, u})
    has_all = {t: frozenset(range(6)), u: frozenset(range(6))}
    members = [
        Subscriber("a", None, both, has_all),
        Subscriber("b", None, frozenset({t}), {}),
    ]
    targets = ASSIGNORS["uniform"](Subscribers(members, {t: 6, u: 6}))
    assert {name: size(each) for name, each in targets.items()} == {"a": 6, "b": 6}


# Range


@given(groups(alike=True))
def test_range_gives_the_same_partitions_of_topics_of_the_same_size(group: Subscribers) -> None:
    same = group._replace(partitions=dict.fromkeys(group.partitions, 7))
    for assignment in ASSIGNORS["range"](same).values():
        assert len({frozenset(each) for each in assignment.values()}) <= 1


def test_range_cuts_a_topic_in_the_order_of_the_members() -> None:
    t = TOPICS[0]
    members = [Subscriber(name, None, frozenset({t}), {}) for name in "cab"]
    assert ASSIGNORS["range"](Subscribers(members, {t: 7})) == {
        "a": {t: frozenset({0, 1, 2})},
        "b": {t: frozenset({3, 4})},
        "c": {t: frozenset({5, 6})},
    }


def test_range_puts_static_members_first_by_their_instance() -> None:
    t = TOPICS[0]
    members = [
        Subscriber("a", None, frozenset({t}), {}),
        Subscriber("z", "i1", frozenset({t}), {}),
        Subscriber("b", "i2", frozenset({t}), {}),
    ]
    targets = ASSIGNORS["range"](Subscribers(members, {t: 3}))
    assert {name: sorted(each[t]) for name, each in targets.items()} == {
        "z": [0],
        "b": [1],
        "a": [2],
    }


def test_with_more_members_than_partitions_some_get_nothing() -> None:
    t = TOPICS[0]
    members = [Subscriber(name, None, frozenset({t}), {}) for name in "abc"]
    for assign in ASSIGNORS.values():
        given_out = sorted(size(each) for each in assign(Subscribers(members, {t: 2})).values())
        assert given_out == [0, 1, 1]
