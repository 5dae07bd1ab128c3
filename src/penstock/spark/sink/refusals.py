"""The reasons for which the sink stops a query: the event, the object, the next step.

`RepeatBatch`: this driver decided nothing of the batch, and a restarted query repeats it.
`SinkStopped`: continuing would lose rows or write them twice, so a person has to choose.
"""

from collections.abc import Sequence

from penstock.spark.sink.decisions import BatchName, Content, LastBatch, WrittenTransaction

# A message names this many partitions; the rest is a number.
PARTITIONS_NAMED_MAX = 20


class SinkRefusal(Exception):
    """The sink stops."""


class RepeatBatch(SinkRefusal):
    """The query may be restarted as it is."""


class SinkStopped(SinkRefusal):
    """The query must not be restarted before a person has chosen."""


class DriverReplaced(RepeatBatch):
    def __init__(self, sink_id: str, batch: BatchName | None, reason: str) -> None:
        during = f" while it wrote {batch}" if batch else ""
        super().__init__(
            f"another driver has taken over sink {sink_id!r}{during} ({reason}). Nothing is lost: "
            "what was decided is finished by the other one, what was not is aborted. If two "
            "queries run on purpose, give each a sink.id of its own"
        )


class MixedPlans(RepeatBatch):
    def __init__(self, sink_id: str, batch: BatchName) -> None:
        super().__init__(
            f"the tasks of {batch} were started by different plans of sink {sink_id!r}; "
            "nothing of it was committed"
        )


class TransactionsTooOld(RepeatBatch):
    def __init__(self, sink_id: str, batch: BatchName, age_ms: int, timeout_ms: int) -> None:
        super().__init__(
            f"sink {sink_id!r} does not commit {batch}: its oldest transaction is open for "
            f"{age_ms / 1000:.0f} s, more than half of its timeout ({timeout_ms / 1000:.0f} s), "
            "and the cluster could abort it halfway through. Nothing was written; the batch is "
            "repeated when the query is restarted. Make batches smaller, or raise "
            "transaction.timeout.ms (the cluster's transaction.max.timeout.ms is its limit)"
        )


class BatchToRewrite(RepeatBatch):
    def __init__(
        self, sink_id: str, batch: BatchName, lost: Sequence[WrittenTransaction], reason: str
    ) -> None:
        super().__init__(
            f"{_lost(sink_id, batch, lost, reason)}. on.lost is rewrite: the restarted query "
            "writes the whole batch again; rows of it that were not lost are then there twice"
        )


class RowsLost(SinkStopped):
    def __init__(
        self, sink_id: str, batch: BatchName, lost: Sequence[WrittenTransaction], reason: str
    ) -> None:
        super().__init__(
            f"{_lost(sink_id, batch, lost, reason)}. Choose how to go on and restart the query: "
            "on.lost=rewrite writes the whole batch again (rows of it that were not lost are then "
            "there twice), on.lost=skip goes on without the lost rows"
        )


class CheckpointWentBack(SinkStopped):
    def __init__(self, sink_id: str, batch: BatchName, last: LastBatch, why: str) -> None:
        super().__init__(
            f"the checkpoint went back in time: sink {sink_id!r} has already committed "
            f"{last.batch} ({last.content.rows} rows), and is now given {batch}{why}. Its rows "
            "would be there twice, or others missing. Use the checkpoint that belongs to what was "
            "written (if another run of this query has gone on with it meanwhile, just start the "
            "query again); or, if rows may be there twice, start with a new checkpoint location "
            "and new.checkpoint=allow"
        )


class NewCheckpoint(SinkStopped):
    def __init__(self, sink_id: str, batch: BatchName, last: LastBatch) -> None:
        super().__init__(
            f"sink {sink_id!r} belongs to query {last.batch.query_id}, which has committed up to "
            f"batch {last.batch.batch_id}; query {batch.query_id} comes with a checkpoint that "
            "knows nothing of it (was the old one deleted?), and rows that it reads again would "
            "be there twice. Use the old checkpoint; or set new.checkpoint=allow if that is what "
            "you want; or give this query a sink.id of its own"
        )


class ContentUnknown(SinkStopped):
    def __init__(self, sink_id: str, batch: BatchName, last: LastBatch) -> None:
        super().__init__(
            f"sink {sink_id!r} has committed {batch} ({last.content.rows} rows) and is given it "
            f"again, but cannot tell whether it is the same: it was known by its "
            f"{_measure(last.content)}. Start the query with the options that it had "
            "(checkpointLocation), or with a new checkpoint location and new.checkpoint=allow "
            "if rows may be there twice"
        )


class SinkTaken(SinkStopped):
    def __init__(self, sink_id: str, last: LastBatch) -> None:
        super().__init__(
            f"sink {sink_id!r} belongs to query {last.batch.query_id}, a batch job would make it "
            "forget what that query has written: give the job a sink.id of its own"
        )


def _lost(sink_id: str, batch: BatchName, lost: Sequence[WrittenTransaction], reason: str) -> str:
    places = [each for transaction in lost for each in transaction.written]
    named = ", ".join(str(each) for each in places[:PARTITIONS_NAMED_MAX])
    if len(places) > PARTITIONS_NAMED_MAX:
        named += f" and {len(places) - PARTITIONS_NAMED_MAX} more"
    rows = sum(each.rows for each in lost)
    return (
        f"rows were lost: sink {sink_id!r} had decided {batch}, and {len(lost)} of its "
        f"transactions with {rows} rows ended without it ({reason}): {named}"
    )


def _measure(content: Content) -> str:
    return "rows" if content.offsets is None else "offsets in the checkpoint"
