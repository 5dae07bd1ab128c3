"""Members that fall silent, or do not give back what they should."""

import pytest
from consumer_story import GROUP, REBALANCE_MS, SESSION_MS, Consumer, Story, settle

from penstock.coordinator.groups.timers import ConsumerSessionExpired


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def test_a_silent_member_is_out_after_its_session(story: Story) -> None:
    Consumer(story, "a", "t").join()
    story.pass_ms(SESSION_MS - 1)
    assert list(story.group.members) == ["a"]
    story.pass_ms(1)
    assert story.group_state == "Empty"


def test_every_heartbeat_begins_a_new_session(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    for _ in range(3):
        story.pass_ms(SESSION_MS - 1)
        assert member.beat().error == "NONE"


def test_the_others_get_what_a_silent_member_had(story: Story) -> None:
    first, second = Consumer(story, "a", "t").join(), Consumer(story, "b", "t").join()
    settle(story, first, second)
    story.pass_ms(SESSION_MS - 1)
    second.beat()
    story.pass_ms(1)
    assert len(second.beat().has) == 4


def test_a_group_may_have_a_session_timeout_of_its_own(story: Story) -> None:
    story.cluster.configs[GROUP] = {"consumer.session.timeout.ms": "50000"}
    Consumer(story, "a", "t").join()
    story.pass_ms(49_999)
    assert story.group_state == "Stable"
    story.pass_ms(1)
    assert story.group_state == "Empty"


@pytest.mark.parametrize(
    ("stored", "used"), [("1", 5_000), ("7000", 7_000), ("99999", 15_000), ("soon", 5_000)]
)
def test_a_heartbeat_interval_of_its_own_stays_within_the_limits_of_the_server(
    story: Story, stored: str, used: int
) -> None:
    story.cluster.configs[GROUP] = {"consumer.heartbeat.interval.ms": stored}
    assert Consumer(story, "a", "t").join().answer.heartbeat_interval_ms == used


def test_a_rebalance_timeout_below_zero_counts_as_none(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert member.beat(rebalance_timeout_ms=-5).error == "NONE"
    assert story.group.members["a"].rebalance_timeout_ms == 0


def test_who_does_not_give_back_in_its_rebalance_timeout_is_out(story: Story) -> None:
    first, newcomer = Consumer(story, "a", "t").join(), Consumer(story, "b", "t").join()
    first.beat()
    for _ in range(6):
        story.pass_ms(REBALANCE_MS // 6 - 1)
        first.beat()
        newcomer.beat()
    assert "a" in story.group.members
    story.pass_ms(6)
    assert "a" not in story.group.members
    assert len(newcomer.beat().has) == 4


def test_who_gives_back_in_time_stays(story: Story) -> None:
    first, newcomer = Consumer(story, "a", "t").join(), Consumer(story, "b", "t").join()
    first.beat()
    first.report()
    for _ in range(4):
        story.pass_ms(REBALANCE_MS // 4)
        first.beat()
        newcomer.beat()
    assert sorted(story.group.members) == ["a", "b"]


def test_after_a_restart_everybody_has_a_whole_session(story: Story) -> None:
    Consumer(story, "a", "t").join()
    story.pass_ms(SESSION_MS - 1)
    story.restart()
    story.pass_ms(SESSION_MS - 1)
    assert story.group_state == "Stable"
    story.pass_ms(1)
    assert story.group_state == "Empty"


def test_after_a_restart_revocations_are_watched_again(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    Consumer(story, "b", "t").join()
    first.beat()
    story.restart()
    for _ in range(3):
        story.pass_ms(REBALANCE_MS // 3)
        first.beat()
    assert "a" not in story.group.members


def test_a_timer_that_was_replaced_means_nothing(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    [(_, _, stale)] = [each for name, each in story.timers.items() if "session" in name]
    member.beat()
    assert isinstance(stale, ConsumerSessionExpired)
    assert story.machine.handle(stale, story.now_ms).records == ()
    assert list(story.group.members) == ["a"]


def test_names_of_timers_do_not_run_into_each_other() -> None:
    assert ConsumerSessionExpired("a' 'b", "c").name != ConsumerSessionExpired("a", "b' 'c").name
