"""Lines as records, plans as moves, dates as text: pure functions of Kafka's commands."""

from datetime import datetime

import pytest
from hypothesis import given, strategies

from penstock.cli.kafka.framework.runner import CommandRejected
from penstock.cli.kafka.framework.topic_filter import TopicFilter
from penstock.cli.kafka.reassign.plan import proposed
from penstock.cli.kafka.records.line_reader import LineReader, LineRejected
from penstock.cli.kafka.records.perf_figures import DateFormat
from penstock.model import TopicPartition

WITHOUT_SEPARATORS = strategies.text(
    strategies.characters(exclude_characters="\t,:\n\r", exclude_categories=["Cs"])
)


@given(WITHOUT_SEPARATORS, WITHOUT_SEPARATORS, WITHOUT_SEPARATORS, WITHOUT_SEPARATORS)
def test_a_line_is_headers_key_and_value(name: str, said: str, key: str, value: str) -> None:
    reader = LineReader.of({"parse.key": "true", "parse.headers": "TRUE"})
    record = reader.record(f"{name}:{said}\t{key}\t{value}".encode(), 1)
    assert record == (key.encode(), value.encode(), [(name, said.encode())])


def test_a_marker_stands_for_nothing() -> None:
    reader = LineReader.of({"parse.key": "true", "null.marker": "-"})
    assert reader.record(b"-\t-", 1) == (None, None, [])


def test_a_marker_may_not_be_a_separator() -> None:
    with pytest.raises(CommandRejected, match=r"null.marker and key.separator may not be equal"):
        LineReader.of({"key.separator": "-", "null.marker": "-"})


def test_two_separators_may_not_be_one() -> None:
    with pytest.raises(
        CommandRejected, match=r"headers.delimiter and headers.separator may not be"
    ):
        LineReader.of({"headers.delimiter": ","})


def test_a_header_without_its_separator_is_told_with_its_line() -> None:
    reader = LineReader.of({"parse.headers": "true"})
    with pytest.raises(LineRejected, match="found in pair 'a' on line number 7"):
        reader.record(b"a\tv", 7)


def test_a_plan_spreads_leaders_evenly() -> None:
    current = {TopicPartition("t", number): (1, 2) for number in range(6)}
    plan = proposed(current, {1: None, 2: None, 3: None})
    leaders = [replicas[0] for replicas in plan.values()]
    assert {leaders.count(broker) for broker in (1, 2, 3)} == {2}
    assert all(len(set(replicas)) == 2 for replicas in plan.values())


def test_a_plan_uses_different_racks() -> None:
    current = {TopicPartition("t", number): (1, 2) for number in range(8)}
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    for replicas in proposed(current, racks).values():
        assert {racks[broker] for broker in replicas} == {"a", "b"}


def test_a_plan_needs_enough_brokers() -> None:
    with pytest.raises(CommandRejected, match="has 2 replicas, and there are 1 brokers"):
        proposed({TopicPartition("t", 0): (1, 2)}, {1: None})


def test_a_date_is_written_after_javas_letters() -> None:
    when = datetime(2026, 1, 31, 12, 5, 6, 789_000)
    assert DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS%")(when.timestamp()) == "2026-01-31T12:05:06.789%"


def test_a_letter_that_is_not_known_is_refused() -> None:
    with pytest.raises(CommandRejected, match="--date-format GG: GG is none of"):
        DateFormat("GG")


def test_commas_choose_several_topics() -> None:
    wanted = TopicFilter("a.*, b")
    assert [name for name in ("ab", "b", "bb", "c") if wanted(name)] == ["ab", "b"]
