"""The log takes no records, for they are too large or its disk is full: only whoever asked hears of
it, and the group is what the log holds of it."""

import pytest
from consumer_story import (
    CLASSIC_SESSION_MS,
    REBALANCE_MS,
    SESSION_MS,
    Classic,
    Consumer,
    Story,
    error_of,
    settle,
)

from penstock.coordinator.groups.timers import REJECTED_RETRY_MS
from penstock.errors import KafkaStorageError, MessageTooLarge
from penstock.wire.primitives import STRING_BYTES_MAX


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def stable(story: Story, *names: str) -> list[Consumer]:
    members = [Consumer(story, name, "t").join() for name in names]
    settle(story, *members)
    return members


# Heartbeats


def test_whoever_brings_a_record_that_is_refused_hears_of_it(story: Story) -> None:
    story.refusal = MessageTooLarge()
    assert Consumer(story, "a", "t").join().error == "MESSAGE_TOO_LARGE"
    assert story.kind == "none"
    assert not [name for name in story.timers if name.startswith("consumer")]


def test_nothing_is_remembered_of_members_that_were_refused(story: Story) -> None:
    (a,) = stable(story, "a")
    expected = set(story.machine._consumer._expected)
    story.refusal = MessageTooLarge()
    for name in ("b", "c"):
        Consumer(story, name, "t").join()
        Classic(story, name, "t").join()
    assert a.beat().error == "NONE"
    assert set(story.machine._consumer._expected) == expected


def test_a_group_goes_on_as_if_a_refused_member_had_not_come(story: Story) -> None:
    (a,) = stable(story, "a")
    story.refusal = MessageTooLarge()
    Consumer(story, "b", "t").join()
    story.refusal = None
    assert a.beat().error == "NONE"
    assert story.group_state == "Stable"
    assert list(story.group.members) == ["a"]


def test_a_member_whose_records_are_refused_lives_on(story: Story) -> None:
    (a,) = stable(story, "a")
    story.make_topic("u", 1)
    story.pass_ms(SESSION_MS - 1)
    story.refusal = KafkaStorageError()
    a.topics = ["t", "u"]
    assert a.full().error == "KAFKA_STORAGE_ERROR"
    story.refusal = None
    story.pass_ms(SESSION_MS - 1)
    assert list(story.group.members) == ["a"]
    assert a.full().error == "NONE"
    assert "u-0" in a.has


def test_refused_records_of_one_member_keep_no_other_alive(story: Story) -> None:
    a, _b = stable(story, "a", "b")
    story.pass_ms(SESSION_MS // 2)
    story.refusal = MessageTooLarge()
    a.topics = ["t", "u"]
    a.full()
    story.refusal = None
    story.pass_ms(SESSION_MS // 2 + 1)
    assert list(story.group.members) == ["a"]


def test_a_member_that_cannot_leave_is_watched_as_before(story: Story) -> None:
    a, b = stable(story, "a", "b")
    story.refusal = KafkaStorageError()
    assert a.leave().error == "KAFKA_STORAGE_ERROR"
    story.refusal = None
    story.pass_ms(SESSION_MS - 1)
    assert list(story.group.members) == ["a", "b"]
    b.beat()
    story.pass_ms(1)
    assert list(story.group.members) == ["b"]


def test_a_silent_member_that_cannot_be_removed_is_removed_later(story: Story) -> None:
    a, _b = stable(story, "a", "b")
    story.refusal = KafkaStorageError()
    story.pass_ms(SESSION_MS - 1)
    a.beat()
    story.pass_ms(1)
    assert list(story.group.members) == ["a", "b"]
    story.refusal = None
    story.pass_ms(REJECTED_RETRY_MS)
    assert list(story.group.members) == ["a"]


def test_a_revocation_that_was_refused_is_asked_for_again(story: Story) -> None:
    (a,) = stable(story, "a")
    b = Consumer(story, "b", "t").join()
    story.refusal = KafkaStorageError()
    assert a.report().error == "KAFKA_STORAGE_ERROR"
    assert not any(name.startswith("consumer revocation") for name in story.timers)
    story.refusal = None
    settle(story, a, b)
    assert (len(a.has), len(b.has)) == (2, 2)


def test_a_static_member_whose_return_is_refused_keeps_its_place(story: Story) -> None:
    old = Consumer(story, "old", "t", instance_id="i").join()
    settle(story, old)
    old.leave(-2)
    story.refusal = KafkaStorageError()
    Consumer(story, "new", "t", instance_id="i").join()
    story.refusal = None
    assert story.group.static_ids == {"i": "old"}
    story.pass_ms(SESSION_MS)
    assert not story.group.members


# Topics


def test_expressions_whose_new_topics_are_refused_are_looked_at_again(story: Story) -> None:
    a = Consumer(story, "a", regex="t.*").join_resolved()
    settle(story, a)
    story.refusal = MessageTooLarge()
    story.make_topic("tt", 1)
    story.refusal = None
    settle(story, a.beat())
    assert a.has == ["t-0", "t-1", "t-2", "t-3", "tt-0"]


def test_a_refresh_of_expressions_that_is_refused_is_due_still(story: Story) -> None:
    a = Consumer(story, "a", regex="t.*").join_resolved()
    settle(story, a)
    story.cluster.make("tt", 1)
    story.restart()
    story.refusal = MessageTooLarge()
    assert a.beat().error == "MESSAGE_TOO_LARGE"
    story.refusal = None
    settle(story, a.beat())
    assert a.has == ["t-0", "t-1", "t-2", "t-3", "tt-0"]


def test_offsets_of_a_deleted_topic_go_even_if_the_groups_cannot_follow(story: Story) -> None:
    a = Consumer(story, "a", regex="t.*").join_resolved()
    settle(story, a)
    story.refusal = MessageTooLarge()
    story.delete_topic("t")
    assert "offset-deletion" in story.timers


# Migration


def test_an_upgrade_that_is_refused_leaves_the_classic_group_and_whoever_waits_in_it(
    story: Story,
) -> None:
    c1, c2 = Classic(story, "c1", "t"), Classic(story, "c2", "t")
    answer = c1.join()
    story.pass_ms(1)
    c1.joined(answer)
    c1.sync()
    waiting = c2.join()
    assert waiting == []
    story.refusal = MessageTooLarge()
    assert Consumer(story, "a", "t").join().error == "MESSAGE_TOO_LARGE"
    story.refusal = None
    assert (story.kind, waiting) == ("classic", [])
    c1.ask_to_join()
    assert error_of(waiting[0]) == "NONE"


def test_an_upgrade_that_is_refused_leaves_whoever_waits_for_an_assignment(story: Story) -> None:
    c1, c2 = Classic(story, "c1", "t"), Classic(story, "c2", "t")
    answers = [c1.join(), c2.join()]
    story.pass_ms(1)
    joined = [member.joined(each) for member, each in zip((c1, c2), answers, strict=True)]
    leader, other = (c1, c2) if joined[0].leader == c1.member_id else (c2, c1)
    waiting = other.sync()
    assert waiting == []
    story.refusal = MessageTooLarge()
    Consumer(story, "a", "t").join()
    story.refusal = None
    assert waiting == []
    leader.sync()
    assert error_of(waiting[0]) == "NONE"


def test_a_downgrade_that_is_refused_leaves_the_consumer_group(story: Story) -> None:
    (a,) = stable(story, "a")
    c1 = Classic(story, "c1", "t")
    c1.join()
    story.refusal = MessageTooLarge()
    assert a.leave().error == "MESSAGE_TOO_LARGE"
    assert list(story.group.members) == ["a", c1.member_id]
    story.refusal = None
    a.leave()
    assert story.kind == "classic"


def test_a_downgrade_that_is_refused_keeps_the_time_of_every_member(story: Story) -> None:
    (a,) = stable(story, "a")
    c1 = Classic(story, "c1", "t")
    c1.join()
    timers = dict(story.timers)
    story.refusal = MessageTooLarge()
    a.leave()
    assert story.timers == timers
    story.refusal = None
    story.pass_ms(CLASSIC_SESSION_MS)
    assert list(story.group.members) == ["a"]


def test_a_downgrade_that_cannot_be_written_is_tried_again_and_again(story: Story) -> None:
    stable(story, "a")
    c1 = Classic(story, "c1", "t", instance_id="i" * (STRING_BYTES_MAX + 1))
    c1.join()
    for _ in range(2):
        for _ in range(SESSION_MS // CLASSIC_SESSION_MS + 1):
            story.pass_ms(CLASSIC_SESSION_MS - 1)
            c1.beat()
        assert list(story.group.members) == ["a", c1.member_id]
        story.restart()


def test_a_static_member_that_cannot_come_back_as_a_classic_one_keeps_its_place(
    story: Story,
) -> None:
    a = Consumer(story, "a", "t", instance_id="i").join()
    settle(story, a)
    story.refusal = MessageTooLarge()
    assert error_of(Classic(story, "c1", "t", instance_id="i").join()) == "MESSAGE_TOO_LARGE"
    story.refusal = None
    assert a.beat().error == "NONE"
    assert story.group.static_ids == {"i": "a"}


def test_a_classic_member_that_is_refused_leaves_the_empty_consumer_group(story: Story) -> None:
    (a,) = stable(story, "a")
    a.leave()
    epoch = story.group.epoch
    for version in (2, 9):  # the first one waits, the second one is given an id
        story.refusal = KafkaStorageError()
        c1 = Classic(story, "c1", "t")
        assert error_of(c1.ask_to_join(version)) == "KAFKA_STORAGE_ERROR"
        story.refusal = None
        assert (story.kind, story.group.epoch) == ("consumer", epoch)
    story.pass_ms(REBALANCE_MS)
    assert story.waiting == {}
