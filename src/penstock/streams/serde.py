"""What a serde is: the bytes of a key or value to a typed column, and back."""

from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import Column
from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Decoded:
    """The value, and why it could not be read (null where it could), both as SQL."""

    value: str
    cause: str | None = None  # None: nothing can be wrong with the bytes


class Serde(Protocol):
    """How keys or values of a topic are written."""

    @property
    def type(self) -> DataType: ...

    @property
    def can_fail(self) -> bool:
        """Whether there are bytes that it cannot read."""

    def parse(self, raw: Column) -> Column:
        """The costly part, which Spark is made to do once per record."""

    def decode(self, raw: str, parsed: str) -> Decoded:
        """Of the columns with the bytes and with what `parse` made of them."""

    def encode(self, value: Column) -> Column: ...

    def to_bytes(self, value: Any) -> bytes | None: ...

    def from_bytes(self, data: bytes | None) -> Any: ...
