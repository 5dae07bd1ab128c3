"""Compiles a message class into straight-line code that reads and writes it, per version.

The code is made on first use and kept with the class.  Structures are unrolled into one function.
Runs of fixed-size fields become one `struct` call, together with the length or tag count after
them. Fields that a version lacks cost nothing to write.

Readers trust nothing: a count is compared with the remaining bytes before any allocation, and all
failures are `Malformed`.  Bytes after the message are ignored, as in Kafka. Strings of requests and
responses have at most STRING_BYTES_MAX bytes, in flexible versions too; arrays have at most
ARRAY_ELEMENTS_MAX elements. Read in slices, all arrays of a message together have no more: elements
of four bytes take a hundred bytes of memory.

For long messages there is code that pauses every SLICE_BYTES, as a generator: a node reads and
writes in slices (`read_in_slices`, `write_in_slices`), so no message blocks the loop.
"""

import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from penstock.wire.primitives import (
    ARRAY_ELEMENTS_MAX,
    STRING_BYTES_MAX,
    TAGS_MAX,
    Blob,
    Buffer,
    Fixed,
    Malformed,
    UnencodableValue,
    UnknownMessageVersion,
    read_uvarint,
    skip_tags,
    write_uvarint,
)
from penstock.wire.schema import Array, FieldSchema, Kind, MessageSchema, Nested, Text, schema_of

T = TypeVar("T")

# Arrays of numbers up to this length are packed and unpacked by a ready-made Struct.
SHORT_ARRAY_MAX = 16
# Well under a millisecond of work, for any content.
SLICE_BYTES = 4096

Slices = Generator[Any, None, T]

_INT16 = struct.Struct(">h")


def read(cls: type[T], version: int, buffer: Buffer, position: int = 0) -> T:
    """Return the message at `position`; ignore the bytes after it."""
    return read_from(cls, version, buffer, position)[0]


def read_from(cls: type[T], version: int, buffer: Buffer, position: int) -> tuple[T, int]:
    """Return the message at `position`, and the position after it."""
    schema = schema_of(cls)
    reader = schema.readers.get(version)
    if reader is None:
        reader = schema.readers[version] = _compile_reader(cls, schema, version, sliced=False)
    try:
        result: tuple[T, int] = reader(buffer, position, len(buffer))
    except _UNREADABLE as error:
        raise _malformed(cls, version, error) from error
    return result


def read_in_slices(cls: type[T], version: int, buffer: Buffer, position: int) -> Slices[T]:
    """Read as `read` does, with pauses; return the message."""
    schema = schema_of(cls)
    reader = schema.sliced_readers.get(version)
    if reader is None:
        reader = _compile_reader(cls, schema, version, sliced=True)
        schema.sliced_readers[version] = reader
    try:
        message, _position = yield from reader(buffer, position, len(buffer))
    except _UNREADABLE as error:
        raise _malformed(cls, version, error) from error
    return cast("T", message)


_UNREADABLE = (IndexError, struct.error, UnicodeDecodeError)


def _malformed(cls: type, version: int, error: Exception) -> Malformed:
    if isinstance(error, UnicodeDecodeError):
        return Malformed(f"{cls.__name__} v{version}: a string is not UTF-8")
    return Malformed(f"{cls.__name__} v{version} ends too early")


def run_through(slices: Slices[T]) -> T:
    """Return the result of work in slices, without its pauses."""
    try:
        while True:
            next(slices)
    except StopIteration as end:
        return cast("T", end.value)


def write(message: object, version: int) -> bytes:
    out = bytearray()
    write_into(message, version, out)
    return bytes(out)


def write_into(message: object, version: int, out: bytearray) -> None:
    """Append the message; after `UnencodableValue` the end of `out` is undefined."""
    cls = type(message)
    schema = schema_of(cls)
    writer = schema.writers.get(version)
    if writer is None:
        writer = schema.writers[version] = _compile_writer(cls, schema, version, sliced=False)
    try:
        writer(message, out)
    except _UNWRITABLE as error:
        raise UnencodableValue(f"{cls.__name__} v{version}: {error}") from error


def write_in_slices(message: object, version: int, out: bytearray) -> Slices[None]:
    """Write as `write_into` does, with pauses."""
    cls = type(message)
    schema = schema_of(cls)
    writer = schema.sliced_writers.get(version)
    if writer is None:
        writer = _compile_writer(cls, schema, version, sliced=True)
        schema.sliced_writers[version] = writer
    try:
        yield from writer(message, out)
    except _UNWRITABLE as error:
        raise UnencodableValue(f"{cls.__name__} v{version}: {error}") from error


_UNWRITABLE = (struct.error, TypeError, AttributeError, UnicodeEncodeError)


def write_versioned(message: object, version: int) -> bytes:
    """Return the message behind its version, the format of values in internal topics."""
    out = bytearray(_INT16.pack(version))
    write_into(message, version, out)
    return bytes(out)


def read_versioned(cls: type[T], data: Buffer) -> tuple[T, int]:
    """Return the message behind its version, and that version."""
    version = read_int16(data)
    return read(cls, version, data, _INT16.size), version


def read_int16(data: Buffer) -> int:
    """Return the version or the type at the start of a record."""
    if len(data) < _INT16.size:
        raise Malformed("a record ends before its version")
    return cast("int", _INT16.unpack_from(data)[0])


def min_size(kind: Kind, nullable: bool, version: int, flexible: bool) -> int:
    """Return the smallest size of a value of this kind."""
    match kind:
        case Fixed():
            return kind.size
        case Text():
            return 1 if flexible else 2
        case Blob() | Array():
            return 1 if flexible else 4
        case Nested(cls) if nullable:
            return 1
        case Nested(cls):
            return int(flexible) + sum(
                min_size(item.kind, version in item.nullable, version, flexible)
                for item in schema_of(cls).fields
                if version in item.versions and item.tag is None
            )


class _Few(NamedTuple):
    """Code for 0, 1, 2 ... values of one format."""

    packers: tuple[Callable[..., bytes], ...]
    unpackers: tuple[Callable[..., tuple[Any, ...]], ...]


@cache
def _few(format_: str, count_format: str) -> _Few:
    structs = [struct.Struct(f">{count_format}{format_ * n}") for n in range(SHORT_ARRAY_MAX)]
    return _Few(tuple(item.pack for item in structs), tuple(item.unpack_from for item in structs))


class _Emitter:
    """A reader or writer function under construction: its lines, the names they use, and the
    current run of fixed-size fields."""

    def __init__(self, cls: type, schema: MessageSchema, version: int, *, sliced: bool) -> None:
        if version not in schema.versions:
            raise UnknownMessageVersion(f"{cls.__name__} has no version {version}")
        self.label = f"{cls.__name__} v{version}"
        self.version = version
        self.flexible = schema.flexible(version)
        self.limited = not schema.stored
        self.sliced = sliced
        self.lines: list[str] = []
        self.names: dict[str, object] = {
            "Malformed": Malformed,
            "UnencodableValue": UnencodableValue,
            "new": object.__new__,
            "skip_tags": skip_tags,
            "uvarint": read_uvarint,
            "write_uvarint": write_uvarint,
        }
        self._indent = 1
        self._count = 0
        self.run: list[tuple[str, str]] = []

    def line(self, text: str) -> None:
        self.lines.append(" " * self._indent + text)

    @contextmanager
    def block(self, text: str) -> Iterator[None]:
        self.line(text)
        self._indent += 1
        yield
        self._indent -= 1

    def name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.name(prefix)
        self.names[name] = value
        return name

    def add_to_run(self, format_: str, expression: str) -> None:
        self.run.append((format_, expression))

    def take_run(self) -> tuple[struct.Struct, list[str]]:
        packed = struct.Struct(">" + "".join(format_ for format_, _ in self.run))
        expressions = [expression for _, expression in self.run if expression]
        self.run = []
        return packed, expressions

    def pause_beyond(self, place: str) -> None:
        """Pause if `place` has advanced by a slice since the last pause."""
        if self.sliced:
            with self.block(f"if {place} > pause:"):
                self.line(f"pause = {place} + {SLICE_BYTES}")
                self.line("yield")

    def function(self, head: str, place: str) -> Callable[..., Any]:
        first: list[str] = []
        if self.sliced:
            first = [f" pause = {place} + {SLICE_BYTES}", " elements = 0", " if False: yield"]
        source = "\n".join([head, *first, *self.lines])
        exec(compile(source, f"<{self.label}>", "exec"), self.names)
        return cast("Callable[..., Any]", self.names["function"])


def _compile_reader(
    cls: type, schema: MessageSchema, version: int, *, sliced: bool
) -> Callable[..., Any]:
    emitter = _ReaderEmitter(cls, schema, version, sliced=sliced)
    emitter.structure("message", cls)
    emitter.flush()
    emitter.line("return message, position")
    return emitter.function("def function(buffer, position, size):", "position")


def _compile_writer(
    cls: type, schema: MessageSchema, version: int, *, sliced: bool
) -> Callable[..., Any]:
    emitter = _WriterEmitter(cls, schema, version, sliced=sliced)
    emitter.structure("message", cls)
    emitter.flush()
    emitter.line("return")
    return emitter.function("def function(message, out):", "len(out)")


class _ReaderEmitter(_Emitter):
    """Emits code over `buffer`, `position` and `size`."""

    def flush(self) -> None:
        if not self.run:
            return
        if self.run[0][0] == "B" and len(self.run) == 1:
            self.line(f"{self.run.pop()[1]} = buffer[position]")
            self.line("position += 1")
            return
        packed, targets = self.take_run()
        self.line(
            f"{', '.join(targets)}, = {self.constant('u', packed.unpack_from)}(buffer, position)"
        )
        self.line(f"position += {packed.size}")

    def structure(self, target: str, cls: type) -> None:
        self.line(f"{target} = new({self.constant('C', cls)})")
        tagged = []
        for item in schema_of(cls).fields:
            present = self.version in item.versions
            if not present or item.tag is not None:
                self.line(f"{target}.{item.name} = {self.default(item)}")
            if present and item.tag is None:
                self.value(
                    f"{target}.{item.name}", item.kind, self.version in item.nullable, item.name
                )
            elif present:
                tagged.append(item)
        if self.flexible:
            self.tags(target, tagged)

    def default(self, item: FieldSchema) -> str:
        if item.default_factory is list:
            return "[]"
        if item.default_factory is not None:
            return f"{self.constant('d', item.default_factory)}()"
        return self.constant("d", item.default)

    def tags(self, target: str, tagged: list[FieldSchema]) -> None:
        count = self.name("n")
        self.add_to_run("B", count)
        self.flush()
        if not tagged:
            self.line(f"if {count}: position = skip_tags(buffer, position - 1, size)")
            return
        tag, stop = self.name("tag"), self.name("stop")
        with self.block(f"if {count}:"):
            self.line(f"{count}, position = uvarint(buffer, position - 1)")
            self.fail_if(f"{count} > {TAGS_MAX}", "too many tagged fields")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, position = uvarint(buffer, position)")
                self.line(f"{stop}, position = uvarint(buffer, position)")
                self.line(f"{stop} += position")
                self.fail_if(f"{stop} > size", "a tagged field reaches beyond the end")
                for item in tagged:
                    with self.block(f"if {tag} == {item.tag}:"):
                        nullable = self.version in item.nullable
                        place = f"{target}.{item.name}"
                        self.value(place, item.kind, nullable, item.name, tagged=True)
                        self.flush()
                        self.fail_if(
                            f"position != {stop}", f"{item.name} is not as long as its tag says"
                        )
                self.line(f"position = {stop}")

    def fail_if(self, condition: str, reason: str) -> None:
        self.line(f"if {condition}: raise Malformed({f'{self.label}: {reason}'!r})")

    def value(
        self, target: str, kind: Kind, nullable: bool, label: str, *, tagged: bool = False
    ) -> None:
        match kind:
            case Fixed():
                self.add_to_run(kind.format, target)
            case Nested(cls) if nullable:
                present = self.name("n")
                self.add_to_run("b", present)
                self.flush()
                self.line(f"{target} = None")
                # In tagged fields 0 stands for null, elsewhere -1.
                with self.block(f"if {present} > 0:" if tagged else f"if {present} >= 0:"):
                    self.nested(target, cls)
                    self.flush()
            case Nested(cls):
                self.nested(target, cls)
            case _:
                self.sized(target, kind, nullable, label)

    def nested(self, target: str, cls: type) -> None:
        inner = self.name("o")
        self.structure(inner, cls)
        self.line(f"{target} = {inner}")

    def sized(self, target: str, kind: Kind, nullable: bool, label: str) -> None:
        """Emit a string, bytes or an array: a length, then the content."""
        length = self.name("n")
        self.add_to_run("B" if self.flexible else "h" if isinstance(kind, Text) else "i", length)
        self.flush()
        if not isinstance(kind, Text):
            self.behind_length(target, kind, nullable, length, label)
            return
        # Many strings are empty: commits have one per partition.
        with self.block(f"if {length} == {int(self.flexible)}:"):
            self.line(f"{target} = ''")
        with self.block("else:"):
            self.behind_length(target, kind, nullable, length, label)

    def behind_length(
        self, target: str, kind: Kind, nullable: bool, length: str, label: str
    ) -> None:
        """Emit what follows the first byte of a compact length, or a whole length."""
        if self.flexible:
            with self.block(f"if {length} > 127:"):
                self.line(f"{length}, position = uvarint(buffer, position - 1)")
                if self.limited and isinstance(kind, Text):
                    with self.block(f"if {length} > {STRING_BYTES_MAX + 1}:"):
                        reason = f"{self.label}: {label} is a string of"
                        self.line(f"raise Malformed(f'{reason} {{{length} - 1}} bytes')")
            self.line(f"{length} -= 1")
        if nullable:
            with self.block(f"if {length} < 0:"):
                self.line(f"{target} = None")
            with self.block("else:"):
                self.content(target, kind, length, label)
        else:
            self.fail_if(f"{length} < 0", f"{label} is null")
            self.content(target, kind, length, label)

    def content(self, target: str, kind: Kind, length: str, label: str) -> None:
        element = kind.element if isinstance(kind, Array) else None
        if element is not None and self.limited:
            counted = length
            if self.sliced:
                self.line(f"elements += {length}")
                counted = "elements"
            self.fail_if(f"{counted} > {ARRAY_ELEMENTS_MAX}", f"{label} has too many elements")
        if isinstance(element, Text | Blob | Array | Nested):
            self.loop(target, element, length, label)
            return
        scale = f" * {element.size}" if element and element.size > 1 else ""
        self.line(f"end = position + {length}{scale}")
        self.fail_if("end > size", f"{label} reaches beyond the end")
        match kind:
            case Text():
                self.line(f"{target} = str(buffer[position:end], 'utf-8')")
            case Blob(copied=True):
                self.line(f"{target} = bytes(buffer[position:end])")
            case Blob():
                self.line(f"{target} = buffer[position:end]")
                if self.sliced:
                    self.line(f"pause += {length}")  # a view of any length costs the same
            case Array(Fixed() as each):
                self.numbers(target, each, length)
        self.line("position = end")

    def numbers(self, target: str, element: Fixed, length: str) -> None:
        """Emit an array of values of one size, up to `end`."""
        if element.format == "16s":
            read = "[bytes(buffer[p:p + 16]) for p in range(position, {end}, 16)]"
        else:
            many = self.constant("u", struct.unpack_from)
            count = f"({{end}} - position) // {element.size}"
            read = f"[*{many}(f'>{{{{{count}}}}}{element.format}', buffer, position)]"
        few = self.constant("u", _few(element.format, "").unpackers)
        with self.block(f"if {length} < {SHORT_ARRAY_MAX}:"):
            self.line(f"{target} = [*{few}[{length}](buffer, position)]")
        with self.block("else:"):
            if not self.sliced:
                self.line(f"{target} = {read.format(end='end')}")
                return
            self.line(f"{target} = []")
            with self.block("while position < end:"):
                self.line(f"part = min(end, position + {SLICE_BYTES})")
                self.line(f"{target} += {read.format(end='part')}")
                self.line("position = part")
                self.pause_beyond("position")

    def loop(self, target: str, element: Kind, length: str, label: str) -> None:
        items, item = self.name("l"), self.name("o")
        smallest = max(1, min_size(element, False, self.version, self.flexible))
        self.fail_if(f"{length} * {smallest} > size - position", f"{label} has too many elements")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({length}):"):
            if isinstance(element, Nested):
                self.structure(item, element.cls)
            else:
                self.value(item, element, False, label)
            self.flush()
            self.line(f"{items}.append({item})")
            self.pause_beyond("position")


class _WriterEmitter(_Emitter):
    """Emits code that appends to `self.out`."""

    out = "out"

    def flush(self) -> None:
        if self.run:
            packed, values = self.take_run()
            self.line(f"{self.out} += {self.constant('p', packed.pack)}({', '.join(values)})")

    def structure(self, source: str, cls: type) -> None:
        tagged = []
        for item in schema_of(cls).fields:
            if self.version not in item.versions:
                continue
            if item.tag is None:
                self.value(f"{source}.{item.name}", item.kind, self.version in item.nullable)
            else:
                tagged.append(item)
        if not self.flexible:
            return
        if tagged:
            self.flush()
            self.tags(source, sorted(tagged, key=lambda item: cast("int", item.tag)))
        else:
            self.add_to_run("x", "")

    def tags(self, source: str, tagged: list[FieldSchema]) -> None:
        """Emit the tagged fields whose value is not the default."""
        count, part, outer = self.name("n"), self.name("out"), self.out
        given = [self.name("t") for _ in tagged]
        for flag, item in zip(given, tagged, strict=True):
            self.line(f"{flag} = {self.not_default(f'{source}.{item.name}', item)}")
        self.line(f"{count} = {' + '.join(given)}")
        self.line(f"{outer}.append({count})")
        with self.block(f"if {count}:"):
            for flag, item in zip(given, tagged, strict=True):
                with self.block(f"if {flag}:"):
                    self.line(f"{part} = bytearray()")
                    self.out = part
                    nullable = self.version in item.nullable
                    self.value(f"{source}.{item.name}", item.kind, nullable, tagged=True)
                    self.flush()
                    self.out = outer
                    self.line(f"write_uvarint({outer}, {item.tag})")
                    self.line(f"write_uvarint({outer}, len({part}))")
                    self.line(f"{outer} += {part}")

    def not_default(self, source: str, item: FieldSchema) -> str:
        default = item.fresh_default()
        if default is None:
            return f"{source} is not None"
        if isinstance(item.kind, Nested) and self.version not in item.nullable:
            # Field by field: such structures are rare, but the check runs for every partition of a
            # Fetch.
            return " or ".join(
                f"{source}.{inner.name} != {self.constant('d', getattr(default, inner.name))}"
                for inner in schema_of(item.kind.cls).fields
            )
        return f"{source} != {self.constant('d', default)}"

    def value(self, source: str, kind: Kind, nullable: bool, *, tagged: bool = False) -> None:
        match kind:
            case Fixed():
                self.add_to_run(kind.format, source)
                return
            case Nested(cls) if not nullable:
                inner = self.name("o")
                self.line(f"{inner} = {source}")
                self.structure(inner, cls)
                return
        held = self.name("v")
        self.line(f"{held} = {source}")
        if not nullable:
            self.sized(held, kind)
            return
        self.flush()
        with self.block(f"if {held} is None:"):
            self.null(kind, tagged)
        with self.block("else:"):
            if isinstance(kind, Nested):
                self.add_to_run("b", "1")
                self.structure(held, kind.cls)
            else:
                self.sized(held, kind)
            self.flush()

    def null(self, kind: Kind, tagged: bool) -> None:
        if isinstance(kind, Nested):
            self.line(f"{self.out}.append({0 if tagged else 255})")
        elif self.flexible:
            self.line(f"{self.out}.append(0)")
        else:
            nothing = b"\xff\xff" if isinstance(kind, Text) else b"\xff\xff\xff\xff"
            self.line(f"{self.out} += {nothing!r}")

    def sized(self, held: str, kind: Kind) -> None:
        if isinstance(kind, Text):
            self.line(f"{held} = {held}.encode()")
        if isinstance(kind, Array) and isinstance(kind.element, Fixed):
            self.numbers(held, kind.element)
            return
        length = self.name("n")
        self.line(f"{length} = len({held})")
        self.length(length, kind)
        if not isinstance(kind, Array):
            self.line(f"{self.out} += {held}")
            return
        item = self.name("o")
        with self.block(f"for {item} in {held}:"):
            if isinstance(kind.element, Nested):
                self.structure(item, kind.element.cls)
            else:
                self.value(item, kind.element, False)
            self.flush()
            if self.out == "out":
                self.pause_beyond("len(out)")

    def length(self, length: str, kind: Kind) -> None:
        if not self.flexible:
            self.add_to_run("h" if isinstance(kind, Text) else "i", length)
            self.flush()
            return
        before = list(self.run)
        self.line(f"{length} += 1")
        with self.block(f"if {length} < 128:"):
            if before:
                self.add_to_run("B", length)
                self.flush()
            else:
                self.line(f"{self.out}.append({length})")
        with self.block("else:"):
            if self.limited and isinstance(kind, Text):
                with self.block(f"if {length} > {STRING_BYTES_MAX + 1}:"):
                    reason = f"{self.label}: a string of"
                    self.line(f"raise UnencodableValue(f'{reason} {{{length} - 1}} bytes')")
            self.run = before
            self.flush()
            self.line(f"write_uvarint({self.out}, {length})")

    def numbers(self, held: str, element: Fixed) -> None:
        """Emit an array of fixed-size values: short ones in one call, with their count."""
        self.flush()
        length, format_ = self.name("n"), element.format
        few = self.constant("p", _few(format_, "B" if self.flexible else "i").packers)
        many = self.constant("p", struct.pack)
        self.line(f"{length} = len({held})")
        with self.block(f"if {length} < {SHORT_ARRAY_MAX}:"):
            count = f"{length} + 1" if self.flexible else length
            self.line(f"{self.out} += {few}[{length}]({count}, *{held})")
        with self.block("else:"):
            if self.flexible:
                self.line(f"write_uvarint({self.out}, {length} + 1)")
            else:
                self.line(f"{self.out} += {many}('>i', {length})")
            if format_ == "16s":
                self.line(f"{self.out} += b''.join({held})")
            else:
                self.line(f"{self.out} += {many}(f'>{{{length}}}{format_}', *{held})")
