"""Single rules of the sink, and the sentences with which it stops."""

import pytest
from sink_network import ModelCluster
from sink_spark import QueryRun
from sink_world import FINE, ROWS, TIMEOUT_MS, Climate, World

from penstock.model import TopicPartition
from penstock.spark.sink.admission import BatchAdmission, admit, check_repeated, may_write
from penstock.spark.sink.batch_commit import BatchCommit, BatchCommitted, CommitRules
from penstock.spark.sink.cluster import SinkSteps, drive
from penstock.spark.sink.decision_end import OnLost
from penstock.spark.sink.decisions import (
    JOB,
    BatchName,
    Content,
    DecisionStage,
    Driver,
    LastBatch,
    RowsAt,
    SinkProducer,
    WrittenTransaction,
)
from penstock.spark.sink.refusals import (
    BatchToRewrite,
    CheckpointWentBack,
    ContentUnknown,
    MixedPlans,
    NewCheckpoint,
    RowsLost,
    SinkTaken,
    TransactionsTooOld,
)
from penstock.spark.sink.task import Carried, Slots, TaskPart, TaskPlan, TaskReport

QUERY = "8a1b"
SEVENTH = BatchName(QUERY, 7)
LAST = LastBatch(SEVENTH, Content(100, offsets="a"), DecisionStage.DONE)


def carried(last: LastBatch | None = None, planned_ms: int = 0) -> Carried:
    return Carried(Driver(SinkProducer(1, 3, 5)), last, planned_ms)


# ---- rule 6


def admission(last: LastBatch | None, batch: BatchName, *, allow: bool = False) -> BatchAdmission:
    return admit("s", last, batch, new_checkpoint_allowed=allow)


def test_the_first_batch_and_a_later_one_are_new() -> None:
    assert admission(None, SEVENTH) is BatchAdmission.NEW
    assert admission(LAST, BatchName(QUERY, 8)) is BatchAdmission.NEW


def test_the_last_batch_is_a_repetition_unless_it_is_to_be_rewritten() -> None:
    assert admission(LAST, SEVENTH) is BatchAdmission.REPEATED
    lost = LastBatch(SEVENTH, Content(100), DecisionStage.REWRITE)
    assert admission(lost, SEVENTH) is BatchAdmission.NEW


def test_an_earlier_batch_stops_the_query() -> None:
    with pytest.raises(CheckpointWentBack, match=r"went back in time.*batch 7.*100 rows.*batch 6"):
        admission(LAST, BatchName(QUERY, 6))


def test_other_content_stops_the_query() -> None:
    check_repeated("s", LAST, SEVENTH, Content(100, offsets="a"))
    with pytest.raises(CheckpointWentBack, match=r"other content \(90 rows\)"):
        check_repeated("s", LAST, SEVENTH, Content(90, offsets="b"))


def test_content_that_cannot_be_compared_stops_the_query() -> None:
    with pytest.raises(ContentUnknown, match=r"offsets in the checkpoint.*checkpointLocation"):
        check_repeated("s", LAST, SEVENTH, Content(100, digest="x"))


def test_a_new_query_id_stops_unless_it_is_allowed() -> None:
    with pytest.raises(NewCheckpoint, match=r"new\.checkpoint=allow"):
        admission(LAST, BatchName("other", 0))
    assert admission(LAST, BatchName("other", 0), allow=True) is BatchAdmission.NEW


def test_a_job_does_not_take_a_querys_name() -> None:
    with pytest.raises(SinkTaken, match=r"sink\.id of its own"):
        admission(LAST, JOB)
    job = LastBatch(JOB, Content(5), DecisionStage.DONE)
    assert admission(job, JOB) is BatchAdmission.NEW
    assert admission(job, SEVENTH) is BatchAdmission.NEW


def test_a_task_writes_only_what_is_new() -> None:
    batches = [BatchName(QUERY, each) for each in (6, 7, 8)]
    allowed = [may_write("s", LAST, each, new_checkpoint_allowed=False) for each in batches]
    assert allowed == [False, False, True]


# ---- rule 2


def test_a_worker_uses_an_id_again_only_for_a_newer_plan() -> None:
    slots, plan = Slots(), SinkProducer(1, 3, 5)
    assert [slots.take(plan), slots.take(plan)] == [0, 1]
    assert slots.take(plan._replace(epoch=6)) == 0
    assert slots.take(plan) == 2, "a task of an older plan came late"
    assert slots.take(plan._replace(epoch=9)) == 0
    assert slots.take(SinkProducer(2, 0, 5)) == 3, "another producer id tells nothing about age"


def test_an_id_whose_init_was_not_answered_is_never_used_again() -> None:
    slots, plan = Slots(), SinkProducer(1, 3, 5)
    slots.abandon(slots.take(plan))
    assert slots.take(plan._replace(epoch=6)) == 1


def test_without_rows_there_is_no_transaction() -> None:
    part = TaskPart(TaskPlan("s", carried()), SEVENTH)
    assert part.report().transaction is None


def test_a_task_reports_what_it_wrote_where() -> None:
    part = TaskPart(TaskPlan("s", carried(), digest_rows=True), SEVENTH)
    part.opened("s.x.0", SinkProducer(9, 0, 5), 1_000, None)
    for rows in (2, 3):
        part.counted(rows, 2**127)
        part.wrote({TopicPartition("t", 1): rows})
    report = part.report()
    assert report.rows == 5 and report.digest == 0
    assert report.transaction is not None
    assert report.transaction.written == (RowsAt("t", 1, 5),)


# ---- rules 4 and 11


PLANNED = carried(planned_ms=1_000)


def report(
    opened_ms: int,
    carrying: Carried | None = None,
    batch: BatchName = SEVENTH,
    timeout_ms: int | None = 60_000,
) -> TaskReport:
    written = WrittenTransaction(
        "s.x.0", SinkProducer(9, 0, 5), (RowsAt("t", 0, 5),), opened_ms, timeout_ms
    )
    return TaskReport(carrying or carried(), batch, 5, transaction=written)


def committing(reports: list[TaskReport], now_ms: int) -> SinkSteps[BatchCommitted]:
    content = Content(5, offsets="b")
    return BatchCommit(CommitRules("s"), SEVENTH, content, reports, now_ms).run()


def test_a_batch_older_than_half_its_timeout_is_not_decided() -> None:
    with pytest.raises(TransactionsTooOld, match=r"31 s.*60 s.*transaction\.timeout\.ms"):
        next(committing([report(1_000, PLANNED), report(20_000, PLANNED)], 32_000))
    next(committing([report(1_000, PLANNED)], 31_000))
    next(committing([report(1_000, timeout_ms=None)], 9_000_000))


# By a worker's clock, for a plan of 1 s and a decision at 32 s
@pytest.mark.parametrize("opened_ms", [99_000, 32_000, 31_000])
def test_a_clock_that_runs_ahead_is_not_believed(opened_ms: int) -> None:
    with pytest.raises(TransactionsTooOld):
        next(committing([report(opened_ms, PLANNED)], 32_000))


def test_reports_of_two_plans_are_not_committed_together() -> None:
    other = Carried(Driver(SinkProducer(1, 6, 5)), None, 0)
    with pytest.raises(MixedPlans):
        next(committing([report(0), report(0, other)], 0))
    with pytest.raises(MixedPlans):
        next(committing([report(0, batch=BatchName(QUERY, 8))], 0))


# ---- rule 7


def lost_world(on_lost: OnLost) -> tuple[World, QueryRun]:
    """A batch is decided, the driver dies, and its transactions time out before anybody comes."""
    world = World(3, Climate(two_phase_commit=False))
    world.weather = FINE
    world.source_end = ROWS
    world.checkpoint.offsets.append((0, ROWS))
    dying = QueryRun(world, world.checkpoint)
    world.queries.append(dying)
    while not any(b'"decided"' in repr(log).encode() for log in world.broker.logs.values()):
        world._step(world.chance.choice(world.actors()))
        for name in world.broker.ending:
            world.broker.write_markers(name)
    world._step(dying)  # its transaction is ended, what it names is not
    dying.over = True
    world.broker.now_ms += 2 * TIMEOUT_MS
    world.broker.abort_timed_out()
    world._run_out()
    next_life = QueryRun(world, world.checkpoint, on_lost=on_lost)
    world.queries.append(next_life)
    world._run_out()
    return world, next_life


def test_lost_rows_stop_the_query_and_are_named() -> None:
    world, query = lost_world(OnLost.STOP)
    assert isinstance(query.error, RowsLost)
    assert not world.output()
    for part in ("batch 0", "query-0", "12 rows", "output-0 (2 rows)", "on.lost=rewrite"):
        assert part in str(query.error)


def test_stopping_again_and_again_changes_nothing() -> None:
    world, _ = lost_world(OnLost.STOP)
    again = QueryRun(world, world.checkpoint)
    world.queries.append(again)
    world._run_out()
    assert isinstance(again.error, RowsLost)


def test_lost_rows_are_written_again_if_that_is_chosen() -> None:
    world, query = lost_world(OnLost.REWRITE)
    assert query.error is None
    assert len(world.output()) == ROWS
    world.judge()


def test_lost_rows_are_left_out_if_that_is_chosen() -> None:
    world, query = lost_world(OnLost.SKIP)
    assert query.error is None
    assert not world.output(), "the batch counts as written"


def test_a_loss_that_commit_finds_repeats_the_batch_if_it_is_to_be_rewritten() -> None:
    world = World(3, Climate())
    world.weather = FINE
    cluster = ModelCluster(world, "driver")
    driver = cluster.take_over("s.driver")
    missing = WrittenTransaction("s.x.0", SinkProducer(9, 0, 5), (RowsAt("t", 0, 5),))
    told = TaskReport(Carried(Driver(driver), None, 0), SEVENTH, 5, transaction=missing)
    rules = CommitRules("s", OnLost.REWRITE)
    with pytest.raises(BatchToRewrite, match=r"t-0 \(5 rows\)"):
        drive(BatchCommit(rules, SEVENTH, Content(5, offsets="b"), [told], 0).run(), cluster)
    decision = cluster.last_decision("s")
    assert decision is not None and decision.stage is DecisionStage.REWRITE
