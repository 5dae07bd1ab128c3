"""Offsets that nobody needs any more, and groups that nothing is left of."""

import pytest
from offset_story import DAY_MS, MINUTE_MS, Story

from penstock.coordinator.groups import offset_expiry, offset_store
from penstock.coordinator.groups.classic import ClassicGroup
from penstock.coordinator.groups.classic.generation import ClassicGeneration
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.wire.records.group import OffsetCommitValue

ALICE = 77
ORDERS, BILLS = ("orders", 0), ("bills", 0)
WEEK_MS = 7 * DAY_MS
CHECK_MS = 10 * MINUTE_MS


@pytest.fixture
def story() -> Story:
    return Story()


def empty(story: Story, group_id: str, protocol_type: str = "consumer") -> ClassicGroup:
    """The last member leaves now."""
    group = story.classic(group_id, protocol_type=protocol_type)
    group.replay(ClassicGeneration(6, protocol_type, since_ms=story.now_ms))
    return group


def test_the_check_comes_every_ten_minutes(story: Story) -> None:
    assert story.timers["offset-check"].at_ms == story.now_ms + CHECK_MS
    story.pass_time(CHECK_MS)
    assert story.timers["offset-check"].at_ms == story.now_ms + CHECK_MS


def test_without_members_by_nature_an_offset_expires_a_week_after_its_commit(
    story: Story,
) -> None:
    story.commit("g", {ORDERS: 5})
    story.pass_time(DAY_MS)
    story.commit("g", {BILLS: 6})
    story.pass_time(6 * DAY_MS - 1)
    assert story.fetch("g", None) == {ORDERS: 5, BILLS: 6}
    story.pass_time(1)
    assert story.fetch("g", None) == {BILLS: 6}
    story.pass_time(DAY_MS)
    assert story.fetch("g", None) == {}


def test_a_group_without_members_and_offsets_is_forgotten(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    story.pass_time(WEEK_MS)
    assert story.state.groups == {}
    story.restart()
    assert story.state.groups == {}


def test_a_group_that_never_had_offsets_is_forgotten_when_it_is_empty(story: Story) -> None:
    empty(story, "g")
    story.classic("h")
    story.pass_time(CHECK_MS)
    assert list(story.state.groups) == ["h"]


def test_a_group_that_still_has_offsets_stays(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    story.pass_time(CHECK_MS)
    assert list(story.state.groups) == ["g"]


def test_offsets_of_a_group_without_members_expire_since_the_last_one_left(story: Story) -> None:
    story.classic("g", "orders")
    story.commit("g", {ORDERS: 5}, member_id="m", epoch=5)
    story.pass_time(DAY_MS)
    empty(story, "g")
    story.pass_time(WEEK_MS - 1)
    assert story.fetch("g", None) == {ORDERS: 5}
    story.pass_time(1)
    assert story.fetch("g", None) == {}


def test_if_nobody_knows_when_the_last_member_left_the_commit_counts(story: Story) -> None:
    empty(story, "g").rest.since_ms = None
    story.commit("g", {ORDERS: 5})
    story.pass_time(WEEK_MS)
    assert story.fetch("g", None) == {}


def test_offsets_of_topics_that_members_use_never_expire(story: Story) -> None:
    story.classic("g", "orders")
    story.consumers("h", "orders")
    for group_id in ("g", "h"):
        story.commit(group_id, {ORDERS: 5, BILLS: 6}, member_id="m", epoch=5)
    story.pass_time(10 * WEEK_MS)
    assert story.fetch("g", None) == {ORDERS: 5}
    assert story.fetch("h", None) == {ORDERS: 5}


def test_nothing_expires_while_a_classic_group_rebalances(story: Story) -> None:
    group = story.classic("g", "orders")
    story.commit("g", {BILLS: 6}, member_id="m", epoch=5)
    group.change().prepare()
    story.pass_time(WEEK_MS)
    assert story.fetch("g", None) == {BILLS: 6}


def test_nothing_expires_while_there_are_members_that_are_no_consumers(story: Story) -> None:
    story.classic("g", protocol_type="connect")
    story.commit("g", {ORDERS: 5}, member_id="m", epoch=5)
    story.pass_time(WEEK_MS)
    assert story.fetch("g", None) == {ORDERS: 5}


def test_an_empty_consumer_group_loses_its_offsets_by_their_commits(story: Story) -> None:
    story.consumers("g").is_empty = True
    story.commit("g", {ORDERS: 5})
    story.pass_time(WEEK_MS)
    assert story.fetch("g", None) == {}
    assert story.state.groups == {}


def test_a_commit_with_a_time_of_its_own_expires_then(story: Story) -> None:
    story.topics.make("orders", b"orders" + bytes(10))
    story.topics.make("bills", b"bills" + bytes(11))
    story.commit("g", {ORDERS: 5}, version=4, retention_ms=DAY_MS)
    story.commit("g", {BILLS: 6}, version=4, retention_ms=2 * WEEK_MS)
    story.restart()
    story.pass_time(DAY_MS - 1)
    assert story.fetch("g", None) == {ORDERS: 5, BILLS: 6}
    story.pass_time(CHECK_MS)
    assert story.fetch("g", None) == {BILLS: 6}
    story.pass_time(WEEK_MS)
    assert story.fetch("g", None) == {BILLS: 6}


def test_a_commit_with_a_time_of_its_own_stays_while_it_is_in_use(story: Story) -> None:
    story.classic("g", "orders")
    story.commit("g", {ORDERS: 5}, version=4, member_id="m", epoch=5, retention_ms=DAY_MS)
    story.pass_time(WEEK_MS)
    assert story.fetch("g", None) == {ORDERS: 5}


def test_an_offset_stays_while_a_transaction_holds_another_for_its_place(story: Story) -> None:
    story.commit("g", {ORDERS: 5, BILLS: 6})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 7})
    story.pass_time(WEEK_MS)
    assert story.fetch("g", None) == {ORDERS: 5}
    story.end(ALICE, committed=False)
    story.pass_time(CHECK_MS)
    assert story.fetch("g", None) == {}


def test_a_group_stays_while_a_transaction_holds_offsets_of_it(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 7})
    story.pass_time(WEEK_MS)
    assert list(story.state.groups) == ["g"]
    story.end(ALICE, committed=False)
    story.pass_time(CHECK_MS)
    assert story.state.groups == {}


def test_the_time_to_keep_is_a_setting() -> None:
    story = Story(GroupSettings(offsets_retention_ms=1000, offsets_check_interval_ms=100))
    story.commit("g", {ORDERS: 5})
    story.pass_time(999)
    assert story.fetch("g", None) == {ORDERS: 5}
    story.pass_time(1)
    assert story.fetch("g", None) == {}


# Slices


def test_many_offsets_expire_in_slices(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", 10)
    for group in range(7):
        story.commit(f"g{group}", {("orders", partition): 5 for partition in range(15)})
    before = len(story.log)
    story.pass_time(WEEK_MS)
    assert len(story.log) - before >= 10
    assert story.state.groups == {}
    assert story.store.groups() == []


def test_many_groups_are_forgotten_in_batches_of_a_bounded_size(story: Story) -> None:
    for number in range(1_500):
        empty(story, f"{number:05}" + "g" * 195)
    before = len(story.log)
    story.pass_time(CHECK_MS)
    assert story.state.groups == {}
    assert len(story.log) - before > 1
    assert max(len(batch) for batch in story.log[before:]) < offset_expiry.SLICE_BYTES_MAX


def test_a_commit_between_two_slices_keeps_its_group(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", 2)
    story.commit("g", {("orders", partition): 5 for partition in range(4)})
    story.now_ms += WEEK_MS
    due = story.timers["offset-check"]
    story.perform(story.work.handle_timer(due.event, story.now_ms))
    story.perform(story.work.handle_timer(story.timers["offset-expiry"].event, story.now_ms))
    assert len(story.tombstones) == 2
    story.commit("g", {ORDERS: 6})
    story.pass_time(0)
    assert story.fetch("g", None) == {ORDERS: 6}
    assert list(story.state.groups) == ["g"]


def test_a_refusal_of_the_log_delays_the_rest_until_the_next_check(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    story.pass_time(WEEK_MS - 1)
    story.refuses = True
    story.pass_time(1)
    assert story.fetch("g", None) == {ORDERS: 5}
    story.refuses = False
    story.pass_time(CHECK_MS)
    assert story.fetch("g", None) == {}


def test_a_timer_that_is_not_ours_is_left_to_others(story: Story) -> None:
    assert story.work.handle_timer("something else", story.now_ms) is None


def test_names_and_ids_that_are_kept_once_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_store, "SHARED_MAX", 10)
    store = offset_store.OffsetStore()
    for number in range(100):
        value = OffsetCommitValue(offset=number, topic_id=number.to_bytes(16, "big"))
        store.put("g", f"t{number}", 0, store.stored(value))
        store.remove("g", f"t{number}", 0)
    assert len(store._names) <= 10
    assert len(store._ids) <= 10
