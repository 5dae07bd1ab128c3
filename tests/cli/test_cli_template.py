"""Templates of `penstock consume`."""

import json

import pytest

from penstock.cli.consume.template import Template
from penstock.cli.terminal.output import CommandFailed, ExitCode
from penstock.client.records import Record

ORDER: Record[bytes, bytes] = Record(
    "orders", 2, 100, b"k", b"\xffv", (("a", b"1"), ("b", None)), 1_769_860_800_000, leader_epoch=3
)
BARE: Record[bytes, bytes] = Record("orders", 0, 0, None, None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%t %p %o %k %v %h", b"orders 2 100 k \xffv a=1,b=null\n"),
        ("%d %T", b"2026-01-31T12:00:00.000Z 1769860800000\n"),
        ("%K %V %H %e", b"1 2 2 3\n"),
        ("100%%", b"100%\n"),
        (r"%k\t%p\n\r\0\\\x41", b"k\t2\n\r\0\\A\n"),
        (r"%p\c", b"2"),
        (r"%v\n", b"\xffv\n"),
        ("%v\n", b"\xffv\n"),
        (r"%v\\n", b"\xffv\\n\n"),
        (r"%p\\c", b"2\\c\n"),
        ("", b"\n"),
        ("plain", b"plain\n"),
    ],
)
def test_a_placeholder_stands_for_a_part_of_the_record(text: str, shown: bytes) -> None:
    assert Template(text).render(ORDER) == shown


def test_what_is_not_there_is_said() -> None:
    assert Template("%k %v %h %d %T %K %V %H %e").render(BARE) == b"null null  - -1 -1 -1 0 -1\n"
    assert Template("%k", b"NIL").render(BARE) == b"NIL\n"


def test_the_whole_record_is_a_line_of_json() -> None:
    shown = Template("%j").render(BARE)
    assert shown.startswith(b'{"topic":"orders","partition":0,"offset":0,')
    assert shown.count(b"\n") == 1


def test_json_has_nothing_in_it_that_steers_a_terminal() -> None:
    steering: Record[bytes, bytes] = Record("t", 0, 0, "ü\u009b\u2028\x7f\x1b".encode(), None)
    shown = Template("%j").render(steering).decode()
    assert "ü\\u009b\\u2028\\u007f\\u001b" in shown
    assert json.loads(shown)["key"] == "ü\u009b\u2028\x7f\x1b"


@pytest.mark.parametrize("text", ["%x", "%", "a%", r"\q", "\\", r"\x4", r"\c more"])
def test_what_has_no_meaning_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="has no meaning") as rejected:
        Template(text)
    assert rejected.value.code is ExitCode.USAGE
