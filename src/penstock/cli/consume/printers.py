"""Printers of `penstock consume`: plain text, a template, JSON lines or YAML documents."""

import sys
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from penstock.cli.arguments.times import time_text
from penstock.cli.consume.record_view import (
    RawRecord,
    as_json,
    as_json_line,
    escape_control_characters,
    pretty,
)
from penstock.cli.consume.template import Template, headers_text
from penstock.cli.terminal.output import Format, print_next_value

Printer: TypeAlias = Callable[[RawRecord], object]
Render: TypeAlias = Callable[[RawRecord], bytes]


class Shown(NamedTuple):
    """The parts of a record to print before its value."""

    offsets: bool
    timestamps: bool
    keys: bool
    headers: bool
    topics: bool = False  # print the topic with offsets, for several topics


def printer_for(
    form: Format, template: str | None, shown: Shown, null: bytes, prettily: bool | None
) -> Printer:
    """Return a printer; if `prettily` is None, JSON is indented on a terminal."""
    terminal = sys.stdout.isatty()
    if form is Format.JSON:
        return lambda record: print(as_json_line(record))
    if form is Format.YAML:
        return lambda record: print_next_value(form, as_json(record))
    render: Render
    if template is not None:
        render = Template(template, null).render
    else:
        render = _plain(shown, null, terminal if prettily is None else prettily)
    write = sys.stdout.buffer.write
    if terminal:
        # Control characters in records must not reach the terminal.
        return lambda record: write(escape_control_characters(render(record)))
    return lambda record: write(render(record))


def _plain(shown: Shown, null: bytes, widely: bool) -> Render:
    """Return a renderer of the value, with the chosen parts before it and tabs between."""

    def render(record: RawRecord) -> bytes:
        parts: list[bytes] = []
        if shown.offsets:
            place = f"{record.partition}:{record.offset}"
            parts.append((f"{record.topic}:{place}" if shown.topics else place).encode())
        if shown.timestamps:
            stamp = record.timestamp_ms
            parts.append(b"-" if stamp is None else time_text(stamp).encode())
        if shown.headers:
            parts.append(headers_text(record.headers))
        if shown.keys:
            parts.append(null if record.key is None else record.key)
        value = null if record.value is None else record.value
        parts.append((widely and pretty(record.value)) or value)
        return b"\t".join(parts) + b"\n"

    return render
