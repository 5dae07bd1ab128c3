"""Waits, steps, and the names of topics."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.retry.ladder import STEPS_MAX, WAIT_MS_MAX, Ladder, Names, wait_ms_of, wait_text
from penstock.retry.settings import client_settings


@given(st.integers(1, WAIT_MS_MAX))
def test_a_wait_is_read_back_from_its_text(wait_ms: int) -> None:
    assert wait_ms_of(wait_text(wait_ms)) == wait_ms


@pytest.mark.parametrize(
    ("said", "wait_ms"),
    [
        ("5s", 5_000),
        ("1m", 60_000),
        ("1 min", 60_000),
        ("2h", 7_200_000),
        ("500ms", 500),
        (1.5, 1_500),
        (timedelta(minutes=10), 600_000),
    ],
)
def test_a_wait_can_be_said_in_several_ways(said: str | float | timedelta, wait_ms: int) -> None:
    assert wait_ms_of(said) == wait_ms


@pytest.mark.parametrize("said", ["", "5", "s", "-5s", "5 years", 0, -1, "31d", 0.0001])
def test_what_is_no_wait_is_refused(said: str | float) -> None:
    with pytest.raises(ValueError, match="wait"):
        wait_ms_of(said)


def test_a_ladder_says_where_a_failed_record_goes() -> None:
    ladder = Ladder.of(("5s", "1m", "10m"))
    assert [ladder.step_after(attempts) for attempts in (1, 2, 3, 4)] == [0, 1, 2, None]
    assert ladder.attempts_max == 4
    assert Ladder(()).step_after(1) is None


def test_a_ladder_has_no_two_equal_steps_and_not_too_many() -> None:
    with pytest.raises(ValueError, match="share a topic"):
        Ladder.of(("60s", "1m"))
    with pytest.raises(ValueError, match="at most"):
        Ladder(tuple(range(1, STEPS_MAX + 2)))


def test_topics_are_named_after_source_group_and_step() -> None:
    names = Names("orders", "billing")
    assert names.retry(90_000) == "orders.billing.retry.90s"
    assert (names.dead, names.pending) == ("orders.billing.dead", "orders.billing.pending")
    with pytest.raises(ValueError, match="249"):
        _ = Names("o" * 200, "g" * 50).dead


def test_steps_are_found_among_the_names_of_topics() -> None:
    names = Names("orders", "billing")
    others = ["orders", "orders.billing.dead", "orders.other.retry.9s", "orders.billing.retry.x"]
    mine = ["orders.billing.retry.5s", "orders.billing.retry.1m", "orders.billing.retry.60s"]
    # Nobody here writes 60 seconds otherwise than as a minute.
    assert names.steps_among([*others, *mine]) == [5_000, 60_000]


@pytest.mark.parametrize("said", [None, True])
def test_a_source_that_is_deleted_stays_deleted_unless_told(said: bool | None) -> None:
    given = {} if said is None else {"allow.auto.create.topics": said}
    found = client_settings(given, bootstrap="127.0.0.1:1", group="g")
    assert found.consumer["allow.auto.create.topics"] is bool(said)
