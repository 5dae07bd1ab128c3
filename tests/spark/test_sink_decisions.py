"""The record of a decision, and the topic that holds it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.spark.sink.decisions import (
    DECISION_BYTES_MAX,
    EVERY_PARTITION,
    PARTITIONS,
    TOPIC_CONFIGS,
    BatchName,
    Content,
    Decision,
    DecisionStage,
    DecisionTooLarge,
    Driver,
    RowsAt,
    SinkProducer,
    UnknownDecision,
    WrittenTransaction,
    decode,
    encode,
    partition_of,
)

INT64 = some.integers(0, 2**63 - 1)
PRODUCERS = some.builds(SinkProducer, INT64, some.integers(0, 2**15 - 1), some.integers(0, 5))
PLACES = some.dictionaries(
    some.tuples(some.text(max_size=20), some.integers(0, 10_000)), some.integers(1, 2**40)
)
WRITTEN = PLACES.map(
    lambda places: tuple(
        RowsAt(topic, partition, rows)
        for topic, partition, rows in sorted((*place, rows) for place, rows in places.items())
    )
)
TRANSACTIONS = some.builds(
    WrittenTransaction, some.text(), PRODUCERS, WRITTEN, INT64, some.none() | INT64
)
DECISIONS = some.builds(
    Decision,
    some.text(),
    some.builds(BatchName, some.text(), INT64),
    some.builds(Content, INT64, some.none() | some.text(), some.none() | some.text()),
    PRODUCERS,
    some.sampled_from(DecisionStage),
    some.lists(TRANSACTIONS, max_size=5).map(tuple),
    some.integers(0, 100),
)


@given(DECISIONS)
def test_a_decision_reads_as_it_was_written(decision: Decision) -> None:
    assert decode(decision.sink_id, encode(decision)) == decision


def decided(*transactions: WrittenTransaction) -> Decision:
    batch = BatchName("q", 7)
    return Decision(
        "s", batch, Content(9), SinkProducer(1, 2, 5), DecisionStage.DECIDED, transactions
    )


def wide(number: int, partitions: int) -> WrittenTransaction:
    written = tuple(RowsAt("orders", each, 10) for each in range(partitions))
    return WrittenTransaction(f"s.{number:016x}.0", SinkProducer(number, 0, 5), written)


def test_a_decision_is_json_that_any_tool_shows() -> None:
    fields = json.loads(encode(decided(wide(1, 2))))
    assert fields["stage"] == "decided" and fields["query"] == "q" and fields["batch"] == 7
    assert fields["transactions"][0]["written"] == {"orders": [[0, 10], [1, 10]]}


def test_a_decision_that_is_too_large_keeps_sums_per_topic() -> None:
    value = encode(decided(*(wide(each, 1_000) for each in range(300))))
    assert len(value) <= DECISION_BYTES_MAX
    kept = decode("s", value).transactions
    assert kept[0].written == (RowsAt("orders", EVERY_PARTITION, 10_000),)
    assert len(kept) == 300


def test_a_decision_with_more_transactions_than_fit_says_what_to_do() -> None:
    with pytest.raises(DecisionTooLarge, match=r"lower sink\.tasks"):
        encode(decided(*(wide(each, 1) for each in range(12_000))))


def test_what_is_done_is_small() -> None:
    done = decided(*(wide(each, 100) for each in range(100))).ended(DecisionStage.DONE)
    assert len(encode(done)) < 300


@pytest.mark.parametrize("value", [b"", b"[]", b'{"format":2}', b'{"format":1}', b"\xff"])
def test_a_record_that_is_not_understood_stops_and_says_so(value: bytes) -> None:
    with pytest.raises(UnknownDecision, match="newer version"):
        decode("s", value)


def test_a_sink_has_one_place_in_the_topic_for_ever() -> None:
    assert partition_of("orders") == 14 and PARTITIONS == 16
    assert TOPIC_CONFIGS["cleanup.policy"] == "compact"


def test_sequence_numbers_go_on_while_the_epoch_stays() -> None:
    first = Driver(SinkProducer(1, 4, 4))
    assert first.after(SinkProducer(1, 4, 4)) == Driver(SinkProducer(1, 4, 4), 1)
    assert first.after(SinkProducer(1, 5, 5)) == Driver(SinkProducer(1, 5, 5), 0)


def test_contents_that_were_measured_differently_cannot_be_compared() -> None:
    assert Content(1, offsets="a").same_as(Content(2, offsets="a"))
    assert not Content(1, offsets="a").same_as(Content(1, offsets="b"))
    assert Content(1, digest="a").same_as(Content(1, digest="a"))
    assert not Content(1, digest="a").same_as(Content(2, digest="a"))
    assert Content(1, offsets="a").same_as(Content(1, digest="a")) is None
