"""Types from text, as Spark writes them: "bigint", "name string, tags array<string>".

Spark's own parser is in the JVM; a topology is described without one.
"""

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.streams.errors import TopologyError

WORDS: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "byte": ByteType(),
    "smallint": ShortType(),
    "short": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "decimal": DecimalType(10, 0),
}
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|`[^`]+`|\d+|[<>(),:])")


def parse_type(text: str) -> DataType:
    """Return a lone type, or a structure for a list of fields."""
    reader = _DdlReader(text)
    first = reader.peek().lower()
    alone = first in (*WORDS, "array", "map", "struct") and reader.peek(1) in ("", "<", "(")
    found: DataType = reader.type() if alone else StructType(reader.fields(end=""))
    if reader.peek():
        reader.fail(f"{reader.peek()!r} is left over")
    return found


class _DdlReader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._tokens: list[str] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                self.fail(f"nothing begins with {text[position:].strip()[:10]!r}")
                return
            self._tokens.append(found[1])
            position = found.end()

    def fail(self, why: str) -> None:
        raise TopologyError(
            f"{self._text!r} is not a type: {why}. Types are written as in Spark: bigint, "
            '"name string, amount double", array<string>, map<string, bigint>, struct<a: int>'
        )

    def peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if not token or (wanted is not None and token != wanted):
            self.fail(f"{wanted or 'a name'} is missing before {token or 'the end'!r}")
        self._at += 1
        return token

    def type(self) -> DataType:
        word = self.take().lower()
        match word:
            case "array":
                self.take("<")
                element = self.type()
                self.take(">")
                return ArrayType(element)
            case "map":
                self.take("<")
                key = self.type()
                self.take(",")
                value = self.type()
                self.take(">")
                return MapType(key, value)
            case "struct":
                self.take("<")
                fields = self.fields(end=">")
                self.take(">")
                return StructType(fields)
            case "decimal" if self.peek() == "(":
                self.take("(")
                precision = int(self.take())
                self.take(",")
                scale = int(self.take())
                self.take(")")
                return DecimalType(precision, scale)
        if word not in WORDS:
            self.fail(f"{word} is not known")
        return WORDS[word]

    def fields(self, end: str) -> list[StructField]:
        found: list[StructField] = []
        while True:
            name = self.take().strip("`")
            if self.peek() == ":":
                self.take(":")
            of = self.type()
            required = self.peek().lower() == "not" and self.peek(1).lower() == "null"
            if required:
                self._at += 2
            found.append(StructField(name, of, not required))
            if self.peek() == end:
                return found
            self.take(",")
