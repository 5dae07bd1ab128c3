"""Admission of a batch: new, or decided before (rule 6).

A decided batch is skipped only if it is that very batch: the last one, of the same query, with the
same content. Any other old batch stops the query, since the checkpoint and the topic contradict
each other.
"""

from enum import Enum, auto

from penstock.spark.sink.decisions import BatchName, Content, DecisionStage, LastBatch
from penstock.spark.sink.refusals import (
    CheckpointWentBack,
    ContentUnknown,
    NewCheckpoint,
    SinkRefusal,
    SinkTaken,
)


class BatchAdmission(Enum):
    NEW = auto()
    REPEATED = auto()  # decided before, if its content is the same


def admit(
    sink_id: str, last: LastBatch | None, batch: BatchName, *, new_checkpoint_allowed: bool
) -> BatchAdmission:
    if last is None or (last.batch.of_a_job and not batch.of_a_job):
        return BatchAdmission.NEW
    if batch.of_a_job:
        if not last.batch.of_a_job:
            raise SinkTaken(sink_id, last)
        return BatchAdmission.NEW
    if batch.query_id != last.batch.query_id:
        if not new_checkpoint_allowed:
            raise NewCheckpoint(sink_id, batch, last)
        return BatchAdmission.NEW
    if batch.batch_id > last.batch.batch_id:
        return BatchAdmission.NEW
    if batch.batch_id < last.batch.batch_id:
        raise CheckpointWentBack(sink_id, batch, last, "")
    return BatchAdmission.NEW if last.stage is DecisionStage.REWRITE else BatchAdmission.REPEATED


def may_write(
    sink_id: str, last: LastBatch | None, batch: BatchName, *, new_checkpoint_allowed: bool
) -> bool:
    """Return whether a task writes its rows: those of a new batch. Commit gives the reason,
    once."""
    try:
        admission = admit(sink_id, last, batch, new_checkpoint_allowed=new_checkpoint_allowed)
    except SinkRefusal:
        return False
    return admission is BatchAdmission.NEW


def check_repeated(sink_id: str, last: LastBatch, batch: BatchName, content: Content) -> None:
    same = content.same_as(last.content)
    if same is None:
        raise ContentUnknown(sink_id, batch, last)
    if not same:
        raise CheckpointWentBack(
            sink_id, batch, last, f", which has other content ({content.rows} rows)"
        )
