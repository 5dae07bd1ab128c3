"""The names of a sink and of what belongs to it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.spark.sink.identity import (
    NoSinkId,
    WrongSinkId,
    belongs_to,
    checked,
    driver_id,
    job_sink_id,
    sink_id_of,
    sink_of,
    worker_id,
    workers_pattern,
)

NAMES = some.text(some.sampled_from("ab.0-driver"), min_size=1, max_size=30)
TOKENS = some.integers(0, 2**64 - 1).map(lambda number: f"{number:016x}")


def test_the_option_names_the_sink() -> None:
    assert sink_id_of("orders", "/checkpoints/x", "t") == "orders"


def test_without_the_option_checkpoint_and_topic_do() -> None:
    name = sink_id_of(None, "s3://bucket/checkpoints/orders/", "revenue")
    assert name.startswith("orders-revenue-")
    assert name == sink_id_of(None, "s3://bucket/checkpoints/orders", "revenue")
    others = [("s3://other/checkpoints/orders", "revenue"), ("s3://bucket/checkpoints/orders", "x")]
    assert name not in [sink_id_of(None, *other) for other in others]


def test_with_neither_the_error_says_what_to_set() -> None:
    with pytest.raises(NoSinkId, match=r"sink\.id.*checkpointLocation"):
        sink_id_of(None, None, "t")


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(WrongSinkId):
        checked(name)


@given(NAMES, NAMES, TOKENS, some.integers(0, 99))
def test_no_transactional_id_belongs_to_two_sinks(
    mine: str, other: str, token: str, ordinal: int
) -> None:
    name = worker_id(mine, token, ordinal)
    assert belongs_to(mine, name)
    assert sink_of(name) == mine == sink_of(driver_id(mine))
    if other != mine:
        assert not belongs_to(other, name)
    assert not belongs_to(mine, driver_id(mine))


@given(some.text(min_size=1, max_size=10), TOKENS)
def test_the_pattern_for_servers_says_the_same(mine: str, token: str) -> None:
    pattern = re.compile(workers_pattern(mine))
    assert pattern.fullmatch(worker_id(mine, token, 3))
    assert not pattern.fullmatch(driver_id(mine))


def test_a_job_gets_a_name_that_people_can_read() -> None:
    assert job_sink_id("orders.v2", "12ab") == "job-orders-v2-12ab"
    assert job_sink_id(None, "12ab") == "job-12ab"
