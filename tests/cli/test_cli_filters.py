"""Filters of `penstock consume`: records that pass, and filters that are rejected."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.consume import filters
from penstock.cli.consume.filters import parse_filter
from penstock.cli.consume.record_view import RawRecord
from penstock.cli.terminal.output import CommandFailed, ExitCode
from penstock.client.records import Record

JANUARY_MS = 1_769_860_800_000  # 2026-01-31T12:00:00Z


def record(
    value: bytes | None = b"v",
    key: bytes | None = b"k",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> RawRecord:
    return Record("orders", 2, 100, key, value, headers, JANUARY_MS)


ORDER = record(
    b'{"user": {"id": 7, "name": "ann"}, "items": [{"sku": "x"}], "a.b": 1, "paid": true, '
    b'"note": null, "total": 12.5}',
    headers=(("trace", b"1"), ("trace", b"2"), ("empty", None), ("dotted.name", b"d")),
)


@pytest.mark.parametrize(
    "text",
    [
        "key=k", "key!=x", "key~^k$", "key!~x", "key", "value", "header.trace", "header.trace=2",
        "header.dotted.name=d", 'header."dotted.name"=d', "header.trace!=1", "!header.nothing",
        "!header.empty", "header.nothing!=1", "value.user.id=7", "value.user.id=7.0",
        "value.user.id>6", "value.user.id<=7", "value.user.name=ann", "value.user.name>a",
        "value.items.0.sku=x", 'value."a.b"=1', "value.paid=true", "value.note=null",
        "!value.note", "value.total>=12.5", "value.total<13", "value.user~ann", "value~ann",
        "value.none!=1", "!value.none", "value.items.7.sku!=x", "offset=100", "offset>=100",
        "offset<101", "partition=2", "topic=orders", "topic~^ord", "timestamp>=2026-01-31",
        "timestamp<2026-02-01T00:00Z", f"timestamp={JANUARY_MS}", "timestamp=2026-01-31T12:00:00Z",
    ],
)  # fmt: skip
def test_what_a_filter_says_of_a_record_holds(text: str) -> None:
    assert parse_filter(text)(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "key=x", "key!=k", "key~x", "key!~k", "!key", "!value", "!header.trace", "header.trace=1",
        "header.nothing", "header.nothing=1", "header.nothing~1", "header.empty", "value.user.id=8",
        "value.user.id>7", "value.user.name=Ann", "value.paid=yes", "value.note", "value.none=1",
        "value.items.sku=x", "value.items.1.sku=x", "value.user.id.deeper=7", "offset<100",
        "offset>100", "offset!=100", "partition=0", "topic=other", "timestamp<2026-01-31",
        "timestamp>2027-01-01", "value.user<1", "value.none~x",
    ],
)  # fmt: skip
def test_what_a_filter_does_not_say_of_a_record_does_not_pass(text: str) -> None:
    assert not parse_filter(text)(ORDER)


def test_a_value_that_is_no_json_has_no_fields() -> None:
    for value in (b"text", b"\xff", None, b"[1", b"[" * 100_000):
        assert not parse_filter("value.a")(record(value))
        assert parse_filter("value.a!=1")(record(value))


def test_null_is_absent_and_compares_as_null() -> None:
    gone = record(None, None)
    assert parse_filter("!value")(gone) and parse_filter("!key")(gone)
    assert parse_filter("value=null")(gone)
    assert not parse_filter("value~null")(gone)


def test_texts_that_look_like_numbers_are_compared_as_numbers_where_order_counts() -> None:
    assert parse_filter("value>9")(record(b"10"))
    assert not parse_filter("value=10.0")(record(b"10"))
    assert parse_filter("value>9")(record(b"b"))


@pytest.mark.parametrize(
    "text",
    [
        "", "=", "=a", "keys=a", "header=1", "header", "header.", "value.", "value..a", "value.a.",
        "offset=x", "partition>a", "timestamp=yesterday", "key~(", "key~" + "a" * 2_000,
        "!key=a", "topic.a=1", "offset.a=1", "!", "value.a b!c",
    ],
)  # fmt: skip
def test_what_is_no_filter_is_refused_with_examples(text: str) -> None:
    with pytest.raises(CommandFailed, match="Such as key=abc") as rejected:
        parse_filter(text)
    assert rejected.value.code is ExitCode.USAGE


@given(st.text())
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    with contextlib.suppress(CommandFailed):
        assert parse_filter(text)(ORDER) in (True, False)


def test_a_search_that_backtracks_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "SEARCH_SECONDS_MAX", 0.05)
    slow = parse_filter("value~(a+)+b$")
    with pytest.raises(CommandFailed, match="took longer than"):
        slow(record(b"a" * 64))
