"""Our record classes beside Kafka's own, both ways, byte for byte.

Random messages are made from our schemas, for every class and version.  Kafka must read our bytes,
see the same values in them and write the same bytes; and from our values, given as JSON, Kafka
must write the bytes that we write.
"""

import base64
import importlib
import json
import pkgutil
import random
import string
import subprocess
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.servers import java_class, kafka_jars
from compat.report import Report
from penstock.wire import codec, records
from penstock.wire.primitives import Blob, Fixed
from penstock.wire.schema import EVERY_VERSION, Array, FieldSchema, Kind, Nested, Text, schema_of

MESSAGES_PER_VERSION = 25
ARRAY_LENGTH_MAX = 3
SEED = 4301
SOURCE = Path(__file__).with_name("RecordOracle.java")
# Messages of the client protocol share a package with some records.
NOT_RECORDS = ("Request", "Response", "RequestHeaderData", "ResponseHeaderData")
# Where the wire holds a number and Kafka's JSON the same number: by `struct` format.
LIMITS = {"b": 8, "h": 16, "i": 32, "q": 64}

type_json = Any  # what json.loads gives


def record_classes() -> list[type]:
    """Every record class we have, in the order of its file."""
    found = []
    for module_info in pkgutil.iter_modules(records.__path__):
        module = importlib.import_module(f"{records.__name__}.{module_info.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and hasattr(value, "__schema__")
                and value.__module__ == module.__name__
                and schema_of(value).versions != EVERY_VERSION
            ):
                found.append(value)
    return found


def kafka_record_names() -> set[str]:
    """Every class of Kafka's that has a JSON converter and is no request or response."""
    names = set()
    for part in ("metadata", "group-coordinator", "transaction-coordinator", "share-coordinator"):
        names |= _converters(next(kafka_jars().glob(f"kafka-{part}-[0-9]*.jar")))
    names |= _converters(next(kafka_jars().glob("kafka-raft-[0-9]*.jar")))
    names |= _converters(next(kafka_jars().glob("kafka-clients-[0-9]*.jar")))
    return names


def _converters(jar: Path) -> set[str]:
    ending = "JsonConverter.class"
    with zipfile.ZipFile(jar) as archive:
        paths = [name for name in archive.namelist() if name.endswith(ending) and "$" not in name]
    names = {path.rpartition("/")[2].removesuffix(ending) for path in paths}
    return {n for n in names if not n.removesuffix("Data").endswith(NOT_RECORDS)} - {
        "RequestHeaderData",
        "ResponseHeaderData",
    }


class Oracle:
    """Kafka's classes behind a pipe."""

    def __init__(self, source: Path = SOURCE) -> None:
        self._process = subprocess.Popen(
            java_class(str(source)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        if not answer or answer.startswith("error"):
            raise OracleRefused(answer or "no answer")
        return answer


class OracleRefused(Exception):
    """Kafka's class did not take what it was given."""


def random_message(cls: type, version: int, chance: random.Random) -> Any:
    """Random values for what this version has; defaults for the rest."""
    values = {
        item.name: _random_field(item, version, chance)
        for item in schema_of(cls).fields
        if version in item.versions
    }
    return cls(**values)


def _random_field(item: FieldSchema, version: int, chance: random.Random) -> object:
    if version in item.nullable and chance.random() < 0.3:
        return None
    if chance.random() < 0.1 and version not in item.nullable:
        return item.fresh_default()
    return _random_value(item.kind, version, chance)


def _random_value(kind: Kind, version: int, chance: random.Random) -> object:
    match kind:
        case Fixed(format="?"):
            return chance.random() < 0.5
        case Fixed(format="d"):
            return chance.uniform(-1e9, 1e9)
        case Fixed(format="16s"):
            return chance.randbytes(16)
        case Fixed(format=letter):
            bits = LIMITS[letter.lower()]
            low = 0 if letter.isupper() else -(1 << bits - 1)
            return chance.choice([chance.randrange(low, low + (1 << bits)), low, 0, 1])
        case Text():
            letters = string.ascii_letters + string.digits + "äß€ 本😀"
            return "".join(chance.choices(letters, k=chance.choice([4, 9, 40, 200])))
        case Blob():
            return chance.randbytes(chance.choice([0, 1, 20, 200]))
        case Array(element=element):
            length = chance.randint(0, ARRAY_LENGTH_MAX)
            return [_random_value(element, version, chance) for _ in range(length)]
        case Nested(cls=cls):
            return random_message(cls, version, chance)


def plain(name: str) -> str:
    """A field's name without its spelling: `kraft_version` and `kRaftVersion` are one."""
    return name.replace("_", "").lower()


def as_json(value: Any, kind: Kind, like: type_json, version: int) -> type_json:
    """Our value in the spelling of Kafka's JSON: `like` lends the names, never the values."""
    if value is None:
        return None
    match kind:
        case Fixed(format="16s"):
            return base64.urlsafe_b64encode(bytes(value)).decode().rstrip("=")
        case Blob():
            return base64.b64encode(bytes(value)).decode()
        case Array(element=element):
            lent = like if isinstance(like, list) and len(like) == len(value) else [{}] * len(value)
            return [
                as_json(item, element, part, version)
                for item, part in zip(value, lent, strict=True)
            ]
        case Nested(cls=cls):
            return message_json(value, cls, like, version)
        case _:
            return value


def message_json(message: Any, cls: type, like: type_json, version: int) -> type_json:
    spelled = {plain(name): name for name in like} if isinstance(like, dict) else {}
    made = {}
    for item in schema_of(cls).fields:
        if version not in item.versions:
            continue
        value = getattr(message, item.name)
        if item.tag is not None and value == item.fresh_default():
            continue  # Kafka leaves out a tagged field that has its default
        name = spelled.get(plain(item.name), item.name)
        lent = like.get(name) if isinstance(like, dict) else None
        made[name] = as_json(value, item.kind, lent, version)
    return made


def compare(oracle: Oracle, cls: type, version: int, message: object) -> str:
    """What differs; nothing if all agrees."""
    ours = codec.write(message, version)
    name = cls.__name__
    try:
        hexadecimal, _, text = oracle.ask("decode", name, version, ours.hex()).partition(" ")
    except OracleRefused as refusal:
        return f"Kafka cannot read our bytes {ours.hex()}: {refusal}"
    if bytes.fromhex(hexadecimal.strip("-")) != ours:
        return f"Kafka reads our bytes {ours.hex()} and writes {hexadecimal}"
    theirs = json.loads(text)
    told = message_json(message, cls, theirs, version)
    if told != theirs:
        return f"we meant {json.dumps(told)}, Kafka saw {text}"
    try:
        encoded = oracle.ask("encode", name, version, json.dumps(told))
    except OracleRefused as refusal:
        return f"Kafka cannot take our values {json.dumps(told)}: {refusal}"
    written = bytes.fromhex(encoded.strip("-"))
    if written != ours:
        return f"Kafka writes {encoded} for our values, we write {ours.hex()}"
    if codec.read(cls, version, written) != message:
        return f"we read another message from Kafka's bytes {encoded}"
    return ""


def check_records(report: Report) -> None:
    classes = record_classes()
    missing = kafka_record_names() - {cls.__name__ for cls in classes}
    converters = {name for name in missing if name.endswith(("Converters", "JsonConverters"))}
    missing = {
        n for n in missing - converters if n not in ("MetadataJson", "CoordinatorRecordJson")
    }
    report.expect(not missing, "every record class of Kafka's has its like", str(sorted(missing)))
    chance = random.Random(SEED)
    with Oracle() as oracle:
        for cls in classes:
            versions = schema_of(cls).versions
            try:
                range_ = oracle.ask("range", cls.__name__)
            except OracleRefused as refusal:
                report.expect(False, f"{cls.__name__} is a class of Kafka's", str(refusal))
                continue
            same = range_ == f"{versions.first} {versions.last}"
            differing = "" if same else f"Kafka has versions {range_}"
            for version in range(versions.first, versions.last + 1):
                for _ in range(MESSAGES_PER_VERSION):
                    message = random_message(cls, version, chance)
                    differing = differing or compare(oracle, cls, version, message)
            report.expect(
                not differing,
                f"{cls.__name__} v{versions.first}-{versions.last}, byte for byte",
                differing,
            )
