"""Durations in buckets: cheap to note, and right within a quarter."""

from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.times import BOUNDS_MS, MARK_MS, RECENT_MS, Times

DURATIONS = st.lists(st.floats(0.01, 100_000.0), min_size=1, max_size=200)


@given(DURATIONS)
def test_a_quantile_is_never_below_and_at_most_a_quarter_above(durations: list[float]) -> None:
    times = Times()
    for duration_ms in durations:
        times.note(duration_ms)
    ordered = sorted(durations)
    for quantile, told in times.summary(0.0).quantiles:
        place = next(n for n in range(len(ordered)) if n + 1 >= quantile * len(ordered))
        assert ordered[place] <= told <= 1.29 * ordered[place]


@given(DURATIONS)
def test_buckets_count_what_is_at_or_below_their_bound(durations: list[float]) -> None:
    times = Times()
    for duration_ms in durations:
        times.note(duration_ms)
    told = times.histogram_seconds()
    for bound, count in told.buckets:
        assert count == sum(each <= bound * 1000 for each in durations)
    assert told.count == len(durations)


def test_several_of_one_duration_are_noted_at_once() -> None:
    times = Times()
    times.note(2.0, 5)
    assert times.count == 5
    assert times.total_ms == 10.0


def test_what_is_longer_than_every_bound_is_counted_too() -> None:
    times = Times()
    times.note(10 * BOUNDS_MS[-1])
    assert times.count == 1
    assert times.summary(0.0).quantiles[0][1] == BOUNDS_MS[-1]


def test_quantiles_forget_what_is_long_ago_and_counts_do_not() -> None:
    times = Times()
    times.note(5_000.0)
    now_ms = 0.0
    while now_ms < 2 * RECENT_MS:
        now_ms += MARK_MS
        times.summary(now_ms)
    times.note(1.0)
    told = times.summary(now_ms + MARK_MS)
    assert {at for _, at in told.quantiles} == {1.0}
    assert told.count == 2


def test_there_is_no_quantile_of_nothing() -> None:
    assert isnan(Times().summary(0.0).quantiles[0][1])
