"""Offsets of topics that were deleted while no coordinator could hear of it: during a load, say."""

import pytest
from offset_story import MINUTE_MS, Story

from penstock.coordinator.groups import offset_expiry

ALICE = 77
ORDERS, BILLS = ("orders", 0), ("bills", 0)
OLD_ID, NEW_ID, BILLS_ID = b"old " * 4, b"new " * 4, b"bill" * 4


@pytest.fixture
def story() -> Story:
    """Two topics, and offsets of both."""
    story = Story()
    story.topics.make("orders", OLD_ID)
    story.topics.make("bills", BILLS_ID)
    story.commit("g", {ORDERS: 5, BILLS: 6})
    return story


def test_after_a_load_the_offsets_of_a_topic_that_is_gone_are_forgotten(story: Story) -> None:
    story.commit("h", {("orders", 7): 5})
    story.topics.remove("orders")
    story.restart()
    story.pass_time(0)
    assert story.fetch("g", None) == {BILLS: 6}
    assert story.fetch("h", None) == {}
    story.topics.make("orders", NEW_ID)
    story.restart()
    assert story.fetch("g", None) == {BILLS: 6}


def test_offsets_of_the_topic_before_go_and_those_of_the_present_one_stay(story: Story) -> None:
    story.commit("g", {("orders", 1): 7})
    story.topics.make("orders", NEW_ID)
    story.commit("g", {("orders", 1): 2})
    story.restart()
    story.pass_time(0)
    assert story.fetch("g", None) == {("orders", 1): 2, BILLS: 6}


def test_an_offset_without_an_id_is_taken_for_one_of_the_present_topic(story: Story) -> None:
    story.commit("g", {ORDERS: 5}, version=4, retention_ms=60 * MINUTE_MS)
    story.commit("g", {("orders", 1): 7})
    story.topics.make("orders", NEW_ID)
    story.restart()
    story.pass_time(0)
    assert story.fetch("g", None) == {ORDERS: 5, BILLS: 6}


def test_an_offset_without_an_id_goes_if_there_is_no_such_topic(story: Story) -> None:
    story.commit("g", {ORDERS: 5}, version=4, retention_ms=60 * MINUTE_MS)
    story.topics.remove("orders")
    story.restart()
    story.pass_time(0)
    assert story.fetch("g", None) == {BILLS: 6}


def test_what_transactions_hold_of_a_topic_that_is_gone_goes_too(story: Story) -> None:
    story.topics.make("mails", NEW_ID)
    story.commit_in_transaction(ALICE, "g", {("mails", 0): 7, BILLS: 8})
    story.topics.remove("mails")
    story.restart()
    story.pass_time(0)
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 5, BILLS: 8}


def test_a_load_that_finds_nothing_left_over_writes_nothing(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 7})
    before = len(story.log)
    story.restart()
    assert list(story.timers) == ["offset-check"]
    story.pass_time(0)
    assert len(story.log) == before


def test_a_load_looks_for_them_in_slices(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", 10)
    for group in range(20):
        story.commit(f"g{group}", {("orders", partition): 5 for partition in range(6)})
    story.topics.remove("orders")
    story.restart()
    slices = 0
    while "offset-search" in story.timers:
        story.perform(
            story.work.handle_timer(story.timers.pop("offset-search").event, story.now_ms)
        )
        assert story.written == []
        slices += 1
    assert slices == 122 // 10
    story.pass_time(0)
    assert [story.fetch(f"g{group}", None) for group in (0, 19)] == [{}, {}]
    assert story.fetch("g", None) == {BILLS: 6}


def test_a_commit_to_the_next_topic_of_that_name_stays_whenever_it_comes(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", 1)
    story.commit("h", {ORDERS: 5})
    story.topics.make("orders", NEW_ID)
    story.restart()
    story.commit("g", {ORDERS: 1})
    while "offset-search" in story.timers:
        story.perform(
            story.work.handle_timer(story.timers.pop("offset-search").event, story.now_ms)
        )
    story.commit("h", {ORDERS: 2})
    story.pass_time(0)
    assert story.fetch("g", None) == {ORDERS: 1, BILLS: 6}
    assert story.fetch("h", None) == {ORDERS: 2}


def test_what_the_log_refuses_to_forget_is_forgotten_at_the_next_check(story: Story) -> None:
    story.topics.remove("orders")
    story.restart()
    story.refuses = True
    story.pass_time(0)
    assert story.fetch("g", None) == {ORDERS: 5, BILLS: 6}
    story.refuses = False
    story.pass_time(10 * MINUTE_MS)
    assert story.fetch("g", None) == {BILLS: 6}


def test_a_deletion_during_the_search_is_not_lost(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "SLICE_OFFSETS_MAX", 1)
    story.topics.remove("orders")
    story.restart()
    story.topics.remove("bills")
    story.delete_topic("bills", BILLS_ID)
    story.pass_time(0)
    assert story.fetch("g", None) == {}
