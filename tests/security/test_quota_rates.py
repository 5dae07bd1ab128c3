"""Rates and buckets as Kafka measures them: eleven samples of a second, at least ten seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.quotas.sampled_rate import SampledRate
from penstock.security.quotas.token_bucket import TokenBucket


def rate() -> SampledRate:
    return SampledRate(samples=11, window_ms=1000)


def test_a_young_rate_is_averaged_over_ten_seconds() -> None:
    young = rate()
    young.add(1000, now_ms=0)
    assert young.per_second(now_ms=0) == 100


def test_a_rate_forgets_what_is_older_than_all_samples() -> None:
    old = rate()
    old.add(1000, now_ms=0)
    assert old.per_second(now_ms=10_999) > 0
    assert old.per_second(now_ms=11_000) == 0


def test_a_client_within_its_limit_does_not_wait() -> None:
    slow = rate()
    slow.add(1000, now_ms=0)
    assert slow.wait_ms(limit=100, now_ms=0) == 0


def test_a_client_waits_until_its_rate_is_down_at_the_limit() -> None:
    fast = rate()
    fast.add(2000, now_ms=0)  # twice what ten seconds allow
    assert fast.wait_ms(limit=100, now_ms=0) == 10_000


@given(
    amounts=st.lists(
        st.tuples(st.integers(0, 2_000), st.integers(1, 5_000)), min_size=1, max_size=40
    ),
    limit=st.integers(1, 1_000),
)
def test_after_its_wait_a_client_is_within_its_limit_of_the_window_with_the_wait(
    amounts: list[tuple[int, int]], limit: int
) -> None:
    measured, now_ms = rate(), 0
    for pause_ms, amount in amounts:
        now_ms += pause_ms
        measured.add(amount, now_ms)
    seen, window_ms = measured.per_second(now_ms), measured.window_ms(now_ms)
    wait_ms = measured.wait_ms(limit, now_ms)
    assert seen * window_ms / (window_ms + wait_ms) <= limit * (1 + 1e-9)


def test_a_bucket_takes_a_burst_of_all_its_tokens_without_a_wait() -> None:
    bucket = TokenBucket(rate=5, seconds=11, now_ms=0)
    bucket.take(55, now_ms=0)
    assert bucket.wait_ms(now_ms=0) == 0


def test_a_debt_is_waited_for_at_the_rate_of_the_bucket() -> None:
    bucket = TokenBucket(rate=5, seconds=11, now_ms=0)
    bucket.take(65, now_ms=0)
    assert bucket.wait_ms(now_ms=0) == 2_000
    assert bucket.wait_ms(now_ms=1_500) == 500
    assert bucket.wait_ms(now_ms=2_000) == 0


def test_a_bucket_keeps_no_more_than_its_seconds() -> None:
    bucket = TokenBucket(rate=5, seconds=11, now_ms=0)
    bucket.take(56, now_ms=1_000_000)
    assert bucket.wait_ms(now_ms=1_000_000) == pytest.approx(200)


def test_a_lower_rate_leaves_no_more_tokens_than_it_allows() -> None:
    bucket = TokenBucket(rate=100, seconds=10, now_ms=0)
    bucket.use(1)
    bucket.take(11, now_ms=0)
    assert bucket.wait_ms(now_ms=0) == 1_000
