"""Retry headers of a failed record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.retry.retry_headers import CAUSE_CHARACTERS_MAX, NoTrail, Trail, cause_of, read_trail

PRINTABLE = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
MOMENTS = st.none() | st.integers(0, 2**53)
TRAILS = st.builds(
    Trail,
    topic=st.text(PRINTABLE, min_size=1, max_size=20),
    partition=st.integers(0, 10**6),
    offset=st.integers(0, 2**62),
    timestamp_ms=MOMENTS,
    group=st.text(PRINTABLE, min_size=1, max_size=20),
    attempts=st.integers(0, 100),
    due_ms=MOMENTS,
    first_failed_ms=MOMENTS,
    last_failed_ms=MOMENTS,
    cause=st.text(PRINTABLE, max_size=50),
)
OWN = st.lists(st.tuples(st.sampled_from(["a", "b", "traceparent"]), st.none() | st.binary()))


@given(TRAILS, OWN)
def test_a_trail_is_read_back_and_own_headers_stay(
    trail: Trail, own: list[tuple[str, bytes | None]]
) -> None:
    headers = trail.headers(tuple(own))
    assert read_trail(headers) == trail
    assert headers[: len(own)] == tuple(own)


@given(TRAILS, TRAILS)
def test_a_second_trail_replaces_the_first(first: Trail, second: Trail) -> None:
    assert second.headers(first.headers(())) == second.headers(())


def test_each_failure_counts_and_only_the_first_moment_is_kept() -> None:
    trail = Trail("t", 0, 7, None, "g").failed(ValueError("one"), 10, 20)
    trail = trail.failed(KeyError("two"), 30, None)
    assert (trail.attempts, trail.first_failed_ms, trail.last_failed_ms) == (2, 10, 30)
    assert (trail.due_ms, trail.cause) == (None, "KeyError: 'two'")


def test_to_wait_behind_another_is_no_attempt() -> None:
    trail = Trail("t", 0, 7, None, "g").failed(ValueError(), 10, 20).behind(50)
    assert (trail.attempts, trail.due_ms, trail.last_failed_ms) == (1, 50, 10)


def test_a_cause_is_bounded_and_survives_what_utf_8_cannot_hold() -> None:
    assert len(cause_of(ValueError("x" * 5_000))) <= CAUSE_CHARACTERS_MAX + 3
    trail = Trail("t", 0, 7, None, "g").failed(ValueError("\ud800"), 1, None)
    assert read_trail(trail.headers(())).cause == "ValueError: \\ud800"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("penstock-retry-topic", b"t"),),
        Trail("t", 0, 7, None, "g").headers(())[1:],
        (*Trail("t", 0, 7, None, "g").headers(()), ("penstock-retry-offset", b"many")),
    ],
)
def test_what_is_no_trail_is_said(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    with pytest.raises(NoTrail):
        read_trail(headers)


def test_an_error_that_cannot_say_what_it_is_is_told_by_its_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no word")

    assert cause_of(Mute()).endswith("Mute")
