"""OffsetDelete, and what the deletion of a topic leaves behind."""

import pytest
from offset_story import MINUTE_MS, Story

from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups import offset_expiry
from penstock.errors import GroupIdNotFound, GroupSubscribedToTopic, NonEmptyGroup
from penstock.wire.messages.k47_offset_delete import OffsetDeleteRequest

ALICE = 77
ORDERS, BILLS = ("orders", 0), ("bills", 0)
OLD_ID, NEW_ID = b"old " * 4, b"new " * 4


@pytest.fixture
def story() -> Story:
    return Story()


# OffsetDelete


def test_a_deleted_offset_is_gone_also_after_a_restart(story: Story) -> None:
    story.commit("g", {ORDERS: 5, BILLS: 6})
    assert story.delete("g", [ORDERS]) == {ORDERS: 0}
    assert story.tombstones == [("g", "orders", 0)]
    story.restart()
    assert story.fetch("g", None) == {BILLS: 6}


def test_nothing_is_written_for_what_is_not_there(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    assert story.delete("g", [("orders", 1), BILLS]) == {("orders", 1): 0, BILLS: 0}
    assert story.written == []


def test_an_offset_that_is_named_twice_is_deleted_once(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    story.delete("g", [ORDERS, ORDERS])
    assert story.tombstones == [("g", "orders", 0)]


def test_what_a_transaction_holds_is_deleted_too(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.delete("g", [ORDERS])
    assert story.tombstones == [("g", "orders", 0)]
    assert not story.store.has_pending("g")


@pytest.mark.parametrize("kind", ["classic", "consumers"])
def test_what_members_are_subscribed_to_stays(story: Story, kind: str) -> None:
    if kind == "classic":
        story.classic("g", "orders")
    else:
        story.consumers("g", "orders")
    story.commit("g", {ORDERS: 5, BILLS: 6}, member_id="m", epoch=5)
    codes = story.delete("g", [ORDERS, BILLS])
    assert codes == {ORDERS: GroupSubscribedToTopic.code, BILLS: 0}
    assert story.fetch("g", None) == {ORDERS: 5}


def test_there_must_be_such_a_group(story: Story) -> None:
    with pytest.raises(GroupIdNotFound):
        story.delete("nobody", [ORDERS])


def test_members_that_are_no_consumers_keep_all_of_their_offsets(story: Story) -> None:
    story.classic("g", protocol_type="connect")
    with pytest.raises(NonEmptyGroup):
        story.delete("g", [ORDERS])


def test_a_request_without_topics_only_asks_for_the_group(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    outcome = story.work.delete(GroupRequest(OffsetDeleteRequest(group_id="g"), 0))
    assert outcome.reply is not None
    assert (outcome.reply.error_code, outcome.reply.topics, outcome.records) == (0, [], [])


# Whole groups


def test_the_tombstones_of_a_group_are_for_all_it_has_committed_or_holds(story: Story) -> None:
    story.commit("g", {ORDERS: 5, BILLS: 6})
    story.commit("other", {ORDERS: 7})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 8, ("orders", 1): 9})
    places = [(each.key.topic, each.key.partition) for each in story.store.tombstones_of("g")]  # type: ignore[attr-defined]
    assert places == [ORDERS, BILLS, ("orders", 1)]


def test_what_others_may_ask_about_a_group(story: Story) -> None:
    story.commit("g", {ORDERS: 5, ("orders", 1): 5, BILLS: 6})
    story.commit_in_transaction(ALICE, "h", {ORDERS: 8})
    store = story.store
    assert (store.has_offsets("g"), store.has_pending("g")) == (True, False)
    assert (store.has_offsets("h"), store.has_pending("h")) == (False, True)
    assert store.topics_of("g") == ["orders", "bills"]
    assert (store.count("g"), store.count("h")) == (3, 0)


# Topics


def test_the_offsets_of_a_deleted_topic_go_in_every_group(story: Story) -> None:
    story.commit("g", {ORDERS: 5, BILLS: 6})
    story.commit("h", {("orders", 7): 5})
    story.delete_topic("orders")
    story.pass_time(0)
    assert story.fetch("g", None) == {BILLS: 6}
    assert story.fetch("h", None) == {}
    story.restart()
    assert story.fetch("g", None) == {BILLS: 6}


def test_what_transactions_hold_of_a_deleted_topic_goes_too(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 7, BILLS: 8})
    story.delete_topic("orders")
    story.pass_time(0)
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {BILLS: 8}


def test_an_offset_of_the_next_topic_of_that_name_stays(story: Story) -> None:
    story.topics.make("orders", OLD_ID)
    story.commit("g", {ORDERS: 5, ("orders", 1): 6})
    story.topics.make("orders", NEW_ID)
    story.commit("g", {ORDERS: 1})
    story.delete_topic("orders", OLD_ID)
    story.pass_time(0)
    assert story.fetch("g", None) == {ORDERS: 1}


def test_an_offset_without_an_id_is_taken_for_one_of_the_deleted_topic(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    story.delete_topic("orders", OLD_ID)
    story.pass_time(0)
    assert story.fetch("g", None) == {}


def test_topics_that_were_made_or_grew_cost_nothing(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    outcome = story.work.topics_deleted(TopicsChanged(("orders", "bills")))
    assert (outcome.records, outcome.timers) == ((), ())


def test_many_offsets_of_a_deleted_topic_go_in_slices(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", 10)
    for group in range(20):
        story.commit(f"g{group}", {("orders", partition): 5 for partition in range(6)})
    story.commit("g0", {BILLS: 6})
    before = len(story.log)
    story.delete_topic("orders")
    story.pass_time(0)
    assert len(story.log) - before >= 12
    assert all(len(batch) < 1_000 for batch in story.log[before:])
    assert [story.fetch(f"g{group}", None) for group in (0, 1, 19)] == [{BILLS: 6}, {}, {}]


def test_names_of_any_length_fit_in_the_batches_of_a_slice(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_BYTES_MAX", 100_000)
    group_id = "é" * 10_000
    story.commit(group_id, {("orders", partition): 5 for partition in range(20)})
    before = len(story.log)
    story.delete_topic("orders")
    story.pass_time(0)
    assert max(len(batch) for batch in story.log[before:]) < 100_000 + 50_000
    assert story.fetch(group_id, None) == {}


def test_what_the_log_refuses_to_forget_is_forgotten_at_the_next_check(story: Story) -> None:
    story.commit("g", {ORDERS: 5})
    story.refuses = True
    story.delete_topic("orders")
    story.pass_time(0)
    assert story.fetch("g", None) == {ORDERS: 5}
    story.refuses = False
    story.pass_time(10 * MINUTE_MS)
    assert story.fetch("g", None) == {}


def test_a_second_deletion_while_the_first_is_under_way_is_not_lost(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", 2)
    for group in range(5):
        story.commit(f"g{group}", {ORDERS: 5, BILLS: 6})
    story.delete_topic("orders")
    due = story.timers.pop("offset-deletion")
    story.perform(story.work.handle_timer(due.event, story.now_ms))
    story.delete_topic("bills")
    story.pass_time(0)
    assert [story.fetch(f"g{group}", None) for group in range(5)] == [{}] * 5
