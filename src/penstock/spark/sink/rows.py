"""Rows as Spark passes them: the columns of a record, and the topic of each row.

The columns of Spark's own Kafka sink: value, and optionally key, headers, topic, partition. Other
columns are ignored. The option `topic` overrides the column.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("topic", "key", "value", "headers", "partition")


class NoTopic(ValueError):
    """A row has no topic."""


class MissingColumn(ValueError):
    """The rows lack a column that a record needs."""


class Part(NamedTuple):
    """Rows of one topic."""

    topic: str
    key: pa.Array | None
    value: pa.Array
    headers: pa.Array | None
    partition: pa.Array | None

    @property
    def rows(self) -> int:
        return len(self.value)

    @property
    def columns(self) -> tuple[pa.Array | None, ...]:
        return (self.key, self.value, self.headers, self.partition)


def check_columns(names: Sequence[str], topic: str | None) -> None:
    """Check the columns before the query runs."""
    known = [name.lower() for name in names]
    if "value" not in known:
        raise MissingColumn(
            f"there is no column value, only {', '.join(names) or 'none at all'}; for example "
            'df.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")'
        )
    if topic is None and "topic" not in known:
        raise NoTopic("where to? Set the option topic, or give the rows a column topic")
    for name in COLUMNS:
        if known.count(name) > 1:
            raise MissingColumn(f"there are {known.count(name)} columns {name}")


def parts_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[Part]:
    """Yield the rows by topic; rows of one topic keep their order."""
    columns = dict(zip((name.lower() for name in batch.schema.names), batch.columns, strict=True))
    if not batch.num_rows:
        return
    if topic is not None:
        yield _part(topic, columns)
        return
    topics = columns["topic"]
    if topics.null_count:
        raise NoTopic("a row has null as its topic; set the option topic, or leave such rows out")
    names = pc.unique(topics).to_pylist()
    for name in names:
        chosen = columns
        if len(names) > 1:
            mask = pc.equal(topics, name)
            chosen = {each: column.filter(mask) for each, column in columns.items()}
        yield _part(name, chosen)


def _part(topic: str, columns: dict[str, pa.Array]) -> Part:
    return Part(
        topic,
        columns.get("key"),
        columns["value"],
        columns.get("headers"),
        columns.get("partition"),
    )
