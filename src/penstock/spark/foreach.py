"""Exactly-once writes inside `foreachBatch`.

```python
def both(df, batch_id):
    write_batch(df.select("value"), batch_id, sink_id="raw", options={...})
    write_batch(totals(df), batch_id, sink_id="totals", options={...})
```
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from penstock.spark.options.sink import BATCH_NUMBER, BATCH_QUERY
from penstock.spark.sink.identity import NoSinkId
from penstock.spark.sink.writer import QUERY_ID_PROPERTY

FORMAT = "penstock"


class NoQuery(ValueError):
    """The call is outside of a foreachBatch, so there is no batch to write once."""


def write_batch(
    df: DataFrame,
    batch_id: int,
    *,
    sink_id: str | None = None,
    query_id: str | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Write a micro-batch once, however often Spark repeats it.

    `sink_id` names this write alone: nothing else distinguishes two writes of one batch. A repeated
    batch is recognised by its rows, so it must have the same rows again.
    """
    if not sink_id:
        raise NoSinkId(
            "write_batch needs a sink_id, a different one for each write: all writes of a "
            "foreachBatch have the same query and batch, nothing else tells them apart"
        )
    query = query_id or _query_of(df)
    given = dict(options or {})
    tasks = int(given.get("sink.tasks", df.sparkSession.sparkContext.defaultParallelism))
    writer = df.coalesce(tasks).write.format(FORMAT).mode("append").options(**given)
    writer.options(**{"sink.id": sink_id, BATCH_QUERY: query, BATCH_NUMBER: str(batch_id)}).save()


def _query_of(df: DataFrame) -> str:
    query = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if query is None:
        raise NoQuery(
            "Spark does not say which query this batch is of: call write_batch in a foreachBatch, "
            "on its own thread, or pass query_id=. To write outside of one, use df.write.format"
            '("penstock")'
        )
    return query
