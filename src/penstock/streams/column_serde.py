"""The protocol of a serde of Streams: bytes of a key or value to a typed column, and back."""

from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import Column
from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """The value and its error, both as SQL; the error is null for valid bytes."""

    value: str
    cause: str | None = None  # None: all bytes are valid


class ColumnSerde(Protocol):
    """The format of keys or values of a topic."""

    @property
    def type(self) -> DataType: ...

    @property
    def can_fail(self) -> bool:
        """Return whether some bytes are invalid in this format."""

    def parse(self, raw: Column) -> Column:
        """Return the costly part of decoding, which Spark runs once per record."""

    def decode(self, raw: str, parsed: str) -> DecodedColumn:
        """Decode from the names of two columns: the bytes, and the result of `parse`."""

    def encode(self, value: Column) -> Column: ...

    def to_bytes(self, value: Any) -> bytes | None: ...

    def from_bytes(self, data: bytes | None) -> Any: ...
