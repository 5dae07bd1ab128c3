"""Input of `penstock produce`: reads large blocks, yields chunks of records.

Entries are dictionaries with key and value, as confluent_kafka's produce_batch takes. A chunk is
plain if no entry has headers, a partition or a timestamp of its own.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple, TypeAlias

from penstock.cli.produce.json_lines import Entry, NotARecord, entries_of_lines, is_plain
from penstock.cli.produce.options import Input
from penstock.cli.terminal.output import reason_of

BLOCK_BYTES = 1024 * 1024
CHUNK_ENTRIES_MAX = 1_000  # larger chunks do not fit the processor's cache
LINE_BYTES_MAX = 64 * 1024 * 1024

Reject: TypeAlias = Callable[[str], None]


class InputEnded(Exception):
    """The input cannot be read further; earlier records are still sent."""


class InputChunk(NamedTuple):
    """Records, and the bytes of input that were read for these."""

    entries: list[Entry]
    plain: bool
    read_bytes: int


class NamedInput(NamedTuple):
    """A stream with its name; `size_bytes` is None if the size is not known."""

    name: str
    stream: IO[bytes]
    size_bytes: int | None


def chunks_of(
    kind: Input,
    inputs: Iterable[NamedInput],
    key_separator: str | None,
    null_marker: str | None,
    reject: Reject,
) -> Iterator[InputChunk]:
    """Yield the records of all inputs; raise InputEnded if one cannot be read to its end."""
    null = None if null_marker is None else null_marker.encode()
    for each in inputs:
        if kind is Input.WHOLE:
            data = _read_whole(each)
            yield InputChunk([{"value": data}], True, len(data))
        elif kind is Input.JSON:
            yield from _json_chunks(each, reject)
        elif key_separator is None:
            yield from _value_chunks(each, null)
        else:
            yield from _keyed_chunks(each, key_separator, null, reject)


# -- blocks


class Lines(NamedTuple):
    first_number: int
    lines: list[bytes]
    read_bytes: int


def lines_of(source: NamedInput) -> Iterator[Lines]:
    """Yield lists of lines without newlines; only a newline ends a line."""
    rest, number = b"", 1
    # read1 returns available bytes, so lines of a slow writer do not wait for a full block.
    while block := _read(source, source.stream.read1, BLOCK_BYTES):  # type: ignore[attr-defined]
        lines = (rest + block).split(b"\n") if rest else block.split(b"\n")
        rest = lines.pop()
        for begin in range(0, len(lines), CHUNK_ENTRIES_MAX):
            some = lines[begin : begin + CHUNK_ENTRIES_MAX]
            read_bytes = len(block) if begin == 0 else 0
            yield Lines(number, some, read_bytes)
            number += len(some)
        if len(rest) > LINE_BYTES_MAX:
            raise InputEnded(
                f"{source.name}: line {number} is longer than {LINE_BYTES_MAX // 1024 // 1024} MB"
            )
    if rest:
        yield Lines(number, [rest], 0)


def _read_whole(source: NamedInput) -> bytes:
    data = _read(source, source.stream.read, LINE_BYTES_MAX + 1)
    if len(data) > LINE_BYTES_MAX:
        raise InputEnded(f"{source.name}: larger than {LINE_BYTES_MAX // 1024 // 1024} MB")
    return data


def _read(source: NamedInput, read: Callable[[int], bytes], count: int) -> bytes:
    try:
        return read(count)
    except OSError as problem:
        raise InputEnded(f"{source.name}: {reason_of(problem)}") from problem


# -- lines


def _value_chunks(source: NamedInput, null: bytes | None) -> Iterator[InputChunk]:
    for _, lines, read_bytes in lines_of(source):
        if null is None:
            yield InputChunk([{"value": line} for line in lines], True, read_bytes)
        else:
            entries: list[Entry] = [{"value": None if line == null else line} for line in lines]
            yield InputChunk(entries, True, read_bytes)


def _keyed_chunks(
    source: NamedInput, separator: str, null: bytes | None, reject: Reject
) -> Iterator[InputChunk]:
    split = separator.encode()
    for first, lines, read_bytes in lines_of(source):
        parts = [line.partition(split) for line in lines]
        entries: list[Entry] = [
            {"key": key, "value": value} for key, found, value in parts if found
        ]
        if len(entries) < len(lines):
            for number, (_, found, _) in enumerate(parts, first):
                if not found:
                    reject(f"line {number} has no {separator!r} between key and value")
        if null is not None:
            entries = [
                {name: None if text == null else text for name, text in each.items()}
                for each in entries
            ]
        yield InputChunk(entries, True, read_bytes)


# -- JSON lines


def _json_chunks(source: NamedInput, reject: Reject) -> Iterator[InputChunk]:
    """Yield runs of plain entries and of others, in their order."""
    for first, lines, read_bytes in lines_of(source):
        entries: list[Entry] = []
        plain = True
        for number, entry in enumerate(entries_of_lines(lines), first):
            if entry is None:
                continue
            if isinstance(entry, NotARecord):
                reject(f"line {number}: {entry}")
                continue
            if is_plain(entry) is not plain:
                if entries:
                    yield InputChunk(entries, plain, 0)
                entries, plain = [], not plain
            entries.append(entry)
        yield InputChunk(entries, plain, read_bytes)
