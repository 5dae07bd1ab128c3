"""`penstock produce`: lines, JSON, files, failures."""

import errno
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_running import Ran, run
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.produce import command, input_chunks
from penstock.cli.produce.command import send
from penstock.cli.produce.input_chunks import (
    InputChunk,
    InputEnded,
    NamedInput,
    chunks_of,
    lines_of,
)
from penstock.cli.produce.json_lines import NotARecord, entries_of_lines, entry_of_line
from penstock.cli.produce.options import Input
from penstock.cli.produce.progress import ProduceProgress, Tally
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Tests write records of 1970: retention would delete them between a write and a read.
    with Cluster({"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in str(request.node.name))
    return cluster.create_topic(name, partitions=2)


def at(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> Ran:
    return run("--bootstrap", cluster.bootstrap, *arguments, stdin=stdin)


def named(data: bytes) -> NamedInput:
    return NamedInput("stdin", io.BytesIO(data), None)


# -- blocks


@given(st.binary(), st.integers(1, 20), st.integers(1, 5))
def test_lines_are_the_same_whatever_the_blocks(data: bytes, block: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_chunks, "BLOCK_BYTES", block)
        patch.setattr(input_chunks, "CHUNK_ENTRIES_MAX", chunk)
        found = list(lines_of(named(data)))
    lines = [line.removesuffix(b"\n") for line in io.BytesIO(data)]
    assert [line for each in found for line in each.lines] == lines
    number = 1
    for each in found:
        assert each.first_number == number
        number += len(each.lines)
        assert len(each.lines) <= chunk


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_chunks, "LINE_BYTES_MAX", 10)
    with pytest.raises(InputEnded, match="stdin: line 2 is longer"):
        list(lines_of(named(b"a\n" + b"b" * 11)))


def test_progress_knows_how_much_was_read() -> None:
    data = b"a\n" * 100
    for kind in Input:
        chunks = chunks_of(kind, [named(data)], None, None, lambda _: None)
        assert sum(each.read_bytes for each in chunks) == len(data)


# -- JSON lines

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
good_lines = st.fixed_dictionaries(
    {},
    optional={
        "key": json_values,
        "value": json_values,
        "headers": st.dictionaries(st.text(), st.text() | st.none()),
        "partition": st.integers(0, 5) | st.none(),
        "timestamp": st.integers(0, 2**40),
        "topic": st.text(),
    },
)
any_line = st.one_of(
    st.builds(json.dumps, good_lines, ensure_ascii=st.booleans()).map(str.encode),
    st.builds(json.dumps, json_values).map(str.encode),
    st.sampled_from(
        [b"", b" ", b"{", b"}", b'{"value":1},{"value":2}', b'{"value":[{"a":1}', b'{"b":2}]}',
         b"\xff", b"nothing", b'{"value":"\\ud800"}', b'{"value":{"a":"\\ud800"}}', b"[" * 5_000,
         b'{"value": 1} ', b'{"value":NaN}', b'{"key":[1e999]}', b'{}', b'{"other":1}', b',',
         b'"', b'{"partition":-1}']
    ),
)  # fmt: skip


def _one_by_one(lines: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for line in lines:
        try:
            found.append(entry_of_line(line))
        except NotARecord as wrong:
            found.append(str(wrong))
    return found


@given(st.lists(any_line, max_size=6))
def test_lines_read_together_are_what_they_are_alone(lines: list[bytes]) -> None:
    together = [
        str(each) if isinstance(each, NotARecord) else each for each in entries_of_lines(lines)
    ]
    assert together == _one_by_one(lines)


@given(st.lists(good_lines, min_size=1, max_size=5))
def test_a_value_comes_back_as_the_json_it_was(said: list[dict[str, Any]]) -> None:
    lines = [json.dumps(each).encode() for each in said]
    for given_line, entry in zip(said, entries_of_lines(lines), strict=True):
        if isinstance(entry, NotARecord):
            assert "surrogates not allowed" in str(entry) or not given_line
            continue
        assert entry is not None
        for part in "key", "value":
            if part in given_line:
                value, content = given_line[part], entry[part]
                assert content == (value.encode() if isinstance(value, str) else content)
                if not isinstance(value, str):
                    assert (None if content is None else json.loads(content)) == value


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[1]", "must be an object"),
        (b'{"vale": 1}', "'vale' is no field of a record"),
        (b'{"partition": -1}', "partition must be a number"),
        (b'{"partition": "1"}', "partition must be a number"),
        (b'{"timestamp": "soon"}', "timestamp must be milliseconds"),
        (b'{"timestamp": 99999999999999999999}', "timestamp must be milliseconds"),
        (b'{"headers": 5}', "headers must be an object or a list"),
        (b'{"headers": ["a"]}', "a header in a list must be"),
        (b'{"value_base64": "!"}', "value_base64 is no base64"),
        (b'{"value": 1} x', "something follows"),
        (b'{"value": }', "Expecting value"),
        (b"{}", "says neither key nor value"),
        (b'{"value": NaN}', "NaN, Infinity and numbers as large are no JSON"),
        (b'{"value": {"a": [-Infinity]}}', "NaN, Infinity and numbers as large are no JSON"),
        (b'{"value": 1, "headers": {"h": 1e999}}', "NaN, Infinity and numbers as large"),
        (b'{"value": "\\ud800"}', "surrogates not allowed"),
    ],
)
def test_what_is_no_record_says_why(line: bytes, why: str) -> None:
    with pytest.raises(NotARecord, match=why):
        entry_of_line(line)


def test_json_lines_become_records(cluster: Cluster, topic: str) -> None:
    lines = [
        {"key": "k", "value": {"a": [1, "ü"]}, "partition": 0},
        {"value": "text", "headers": {"h": "1", "n": None}, "timestamp": 1000, "partition": 0},
        {"key": None, "value": None, "partition": 0},
        {"value": 7, "partition": 1, "timestamp": "2026-01-01T00:00:00Z"},
    ]
    data = "".join(json.dumps(each) + "\n" for each in lines).encode()
    ran = at(cluster, "produce", topic, "--input", "json", stdin=data)
    assert (ran.code, ran.err) == (0, f"4 records written to {topic}\n")
    rows = at(cluster, "consume", topic, "--format", "json").json_lines
    first, second, third = [row for row in rows if row["partition"] == 0]
    (fourth,) = [row for row in rows if row["partition"] == 1]
    assert (first["key"], first["value"]) == ("k", '{"a":[1,"ü"]}')
    assert (second["value"], second["timestamp"]) == ("text", 1000)
    assert second["headers"] == [{"key": "h", "value": "1"}, {"key": "n", "value": None}]
    assert (third["key"], third["value"]) == (None, None)
    assert (fourth["value"], fourth["timestamp"]) == ("7", 1_767_225_600_000)


def test_what_was_consumed_can_be_produced_again(cluster: Cluster, topic: str) -> None:
    copy = cluster.create_topic(f"{topic}-copy", partitions=2)
    at(
        cluster, "produce", topic, "--key-separator", ":", "--header", "h=1", "--null-marker", "-",
        stdin=b"a:\xff\nb:-\n\xfe:x\n",
    )  # fmt: skip
    read = at(cluster, "consume", topic, "--format", "json")
    wrote = at(cluster, "produce", copy, "--input", "json", stdin=read.out.encode())
    assert wrote.code == 0
    again = at(cluster, "consume", copy, "--format", "json")

    def comparable(ran: Ran) -> list[str]:
        return sorted(json.dumps({**row, "topic": ""}) for row in ran.json_lines)

    assert comparable(again) == comparable(read)


def test_plain_and_other_records_keep_their_order(cluster: Cluster, topic: str) -> None:
    lines = [
        {"value": str(number), **({"headers": {"h": "1"}} if number % 3 == 0 else {})}
        for number in range(50)
    ]
    data = "".join(json.dumps(each) + "\n" for each in lines).encode()
    at(cluster, "produce", topic, "--input", "json", "--partition", "1", stdin=data)
    assert at(cluster, "consume", topic).out.split() == [str(number) for number in range(50)]


def test_lines_that_are_no_records_are_counted_and_the_rest_is_written(
    cluster: Cluster, topic: str
) -> None:
    data = b'{"value": "a"}\nnothing\n\n{"value": "b"}\n[1]\n'
    ran = at(cluster, "produce", topic, "--input", "json", "--partition", "0", stdin=data)
    assert ran.code == 4
    assert "line 2: " in ran.err and "line 5: must be an object" in ran.err
    assert f"2 records written to {topic}, 2 failed" in ran.err
    assert at(cluster, "consume", topic).out == "a\nb\n"


# -- files


def test_files_are_read_one_after_the_other(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a\nb")
    second.write_bytes(b"c\n")
    files = (str(first), "-", str(second))
    at(cluster, "produce", topic, *files, "--partition", "0", stdin=b"from stdin\n")
    assert at(cluster, "consume", topic).out == "a\nb\nfrom stdin\nc\n"


def test_a_file_can_be_one_record(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "1"
    file.write_bytes(b"a\nb\n\xff")
    at(cluster, "produce", topic, str(file), "--input", "whole", "--header", "h=1")
    (row,) = at(cluster, "consume", topic, "--format", "json").json_lines
    assert row["value_base64"] == "YQpiCv8="
    assert row["headers"] == [{"key": "h", "value": "1"}]


# -- failures


def test_what_came_before_a_line_that_is_too_long_is_written_and_counted(
    cluster: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_chunks, "LINE_BYTES_MAX", 10)
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\n" + b"c" * 11)
    ran = at(cluster, "produce", topic, str(path), "--format", "json")
    assert ran.code == 4
    assert (ran.json["written"], ran.json["failed"]) == (2, 0)
    assert ran.json["error"] == f"{path}: line 3 is longer than 0 MB"
    assert "; nothing from there on was read\n" in ran.err
    assert sorted(at(cluster, "consume", topic).out.split()) == ["a", "b"]


def test_a_first_line_that_is_too_long_is_an_input_that_cannot_be_read(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_chunks, "LINE_BYTES_MAX", 10)
    assert at(cluster, "produce", topic, stdin=b"c" * 11).code == 2


def test_what_came_before_a_disk_failed_is_written_and_counted(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = iter([b"a\nb\n"])

    class Failing(io.BytesIO):
        def read1(self, _size: int | None = -1, /) -> bytes:
            for block in blocks:
                return block
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    failing = NamedInput("disk", Failing(), None)
    monkeypatch.setattr(command, "_inputs", lambda *_: [failing])
    ran = at(cluster, "produce", topic)
    assert ran.code == 4
    assert "error: disk: input/output error; nothing from there on was read\n" in ran.err
    assert ran.err.endswith(f"2 records written to {topic}\n")


def test_records_that_the_server_refuses_are_counted(cluster: Cluster) -> None:
    topic = cluster.create_topic("short", config={"max.message.bytes": 2_000})
    ran = at(
        cluster, "produce", topic, "--format", "json", "-X", "linger.ms=0",
        "-X", "batch.size=1", stdin=b"small\n" + b"x" * 5_000 + b"\n",
    )  # fmt: skip
    assert ran.code == 4
    assert (ran.json["written"], ran.json["failed"]) == (1, 1)
    assert "MSG_SIZE_TOO_LARGE" in ran.json["error"]


def test_only_some_complaints_are_printed(cluster: Cluster, topic: str) -> None:
    ran = at(cluster, "produce", topic, "--key-separator", ":", stdin=b"x\n" * 20)
    assert ran.code == 1
    assert ran.err.count("error: ") == 5
    assert f"0 records written to {topic}, 20 failed" in ran.err


def test_a_partition_that_is_not_there_is_told(cluster: Cluster, topic: str) -> None:
    ran = at(cluster, "produce", topic, "--partition", "7", "--timeout-ms", "2000", stdin=b"x\n")
    assert ran.code == 1
    assert "UNKNOWN_PARTITION" in ran.err


def test_more_records_than_the_queue_holds_arrive_in_order(cluster: Cluster, topic: str) -> None:
    data = b"".join(b"%d\n" % number for number in range(5_000))
    queue = ("-X", "queue.buffering.max.messages=700")
    ran = at(cluster, "produce", topic, "--partition", "0", *queue, stdin=data)
    assert (ran.code, ran.err) == (0, f"5000 records written to {topic}\n")
    assert at(cluster, "consume", topic).out.encode() == data


class _Interrupted:
    """A sender that somebody interrupts when it has taken a few records."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.waiting = 2

    def send(self, chunk: InputChunk) -> None:
        self._tally.accepted += len(chunk.entries)
        raise KeyboardInterrupt


def test_an_interruption_tells_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    sender: Any = _Interrupted(tally)
    chunks = iter([InputChunk([{"value": b"x"}] * 5, True, 10)])
    with pytest.raises(KeyboardInterrupt):
        send(sender, chunks, tally, ProduceProgress(io.StringIO(), [None]))
    assert capsys.readouterr().err == "interrupted: 3 records written, 2 more may have been\n"


@pytest.mark.parametrize(
    "setting",
    ["transactional.id=t", "partitioner.class=no.such:thing", "acks=2", "no.such.key=1"],
)
def test_settings_that_cannot_be_are_refused(cluster: Cluster, setting: str) -> None:
    ran = at(cluster, "produce", "a", "-X", setting, stdin=b"x\n")
    assert ran.code == 2
    assert setting.partition("=")[0] in ran.err
