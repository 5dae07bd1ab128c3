"""The driver's side of the sink on a real cluster: plan, commit, abort, recover.

Each runs one of the pure machines to its end. They run in different processes: the tasks' reports
carry the plan to commit.
"""

import functools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.spark.environment import now_ms
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.batch_commit import BatchCommit, BatchCommitted, CommitRules
from penstock.spark.sink.checkpoint import can_read, offsets_of, query_id_of
from penstock.spark.sink.client_cluster import ClientCluster
from penstock.spark.sink.cluster import drive
from penstock.spark.sink.decision_end import store
from penstock.spark.sink.decisions import BatchName, Content, LastBatch, nothing_decided
from penstock.spark.sink.identity import driver_id, sink_of
from penstock.spark.sink.refusals import NewCheckpoint, RepeatBatch
from penstock.spark.sink.takeover import SinkTakeover, TakenOverSink
from penstock.spark.sink.task import DIGEST_MODULUS, Carried, TaskPlan, TaskReport

_log = logging.getLogger(__name__)


class CheckpointUnreadable(RepeatBatch):
    """The checkpoint could be read when the batch was planned, and cannot now."""


def plan_batch(options: SinkOptions, sink_id: str, *, may_repeat: bool) -> TaskPlan:
    """Take over the sink, finish old work, and return the plan of the tasks. A batch that may be
    repeated must be recognisable: by its checkpoint, or by its rows."""
    with _cluster(options) as cluster:
        if not cluster.abilities.new_epoch_per_transaction:
            _warn_of_old_transactions(options.bootstrap)
        planned_ms = now_ms()
        settled = drive(SinkTakeover(sink_id, options.on_lost).run(), cluster)
        driver, last = settled.driver, settled.last
        if (
            may_repeat
            and last is not None
            and _is_of_another_query(options, sink_id, last, cluster)
        ):
            # Stored in the log: rows of a failed first batch make the topic look written.
            driver = drive(store(driver, nothing_decided(sink_id, driver.producer)), cluster)
            last = None
    _tell(sink_id, settled)
    return TaskPlan(
        sink_id,
        Carried(driver, last, planned_ms),
        options.new_checkpoint_allowed,
        # Transactions without a known name must end by themselves (rule 9).
        two_phase_commit=may_repeat or options.sink_id is not None,
        digest_rows=may_repeat and not _has_checkpoint(options),
    )


def _is_of_another_query(
    options: SinkOptions, sink_id: str, last: LastBatch, cluster: ClientCluster
) -> bool:
    """Return whether the last decision is another query's, about a topic that is gone by now.

    Raise NewCheckpoint if it is about this topic: before the batch is computed (rule 6).
    """
    location = options.checkpoint_location
    query_id = options.batch.query_id if options.batch else query_id_of(location)
    if last.batch.of_a_job or last.batch.query_id == query_id:
        return False
    if options.topic is not None and cluster.is_unwritten(options.topic):
        return True
    if query_id is not None and not options.new_checkpoint_allowed:
        raise NewCheckpoint(sink_id, BatchName(query_id, 0), last)
    return False


def commit_batch(
    options: SinkOptions, sink_id: str, batch: BatchName, reports: Sequence[TaskReport]
) -> BatchCommitted:
    if not reports:
        return BatchCommitted(0, 0)
    rules = CommitRules(sink_id, options.on_lost, options.new_checkpoint_allowed)
    content = _content(options, batch, reports)
    with _cluster(options) as cluster:
        machine = BatchCommit(rules, batch, content, reports, now_ms())
        committed = drive(machine.run(), cluster)
    if options.tasks_max is not None and committed.transactions > options.tasks_max:
        _log.warning(
            "%s was written by %d tasks, sink.tasks is %d: each costs a marker per partition; "
            "coalesce(%d) before the write makes them fewer",
            *(batch, committed.transactions, options.tasks_max, options.tasks_max),
        )
    if committed.lost is not None:
        _log.warning("on.lost=skip: %s goes on without %d rows", batch, committed.lost.rows)
    return committed


def settle(options: SinkOptions, sink_id: str) -> TakenOverSink:
    """Finish the decided batch and abort all other transactions, for abort and for recovery."""
    with _cluster(options) as cluster:
        settled = drive(SinkTakeover(sink_id, options.on_lost).run(), cluster)
    _tell(sink_id, settled)
    return settled


def known_sinks(options: SinkOptions) -> list[str]:
    """Return the sinks with a decision, and those with a driver."""
    with options.connect() as admin:
        decided = ClientCluster(admin, options).decision_log.sinks()
        listed = admin.transactions.list_all(TransactionFilter())
    names = {each.transactional_id for each in listed}
    begun = (sink_of(name) for name in names)
    return sorted({*decided, *(each for each in begun if each and driver_id(each) in names)})


@contextmanager
def _cluster(options: SinkOptions) -> Iterator[ClientCluster]:
    with options.connect() as admin:
        yield ClientCluster(admin, options)


def _has_checkpoint(options: SinkOptions) -> bool:
    return options.batch is None and can_read(options.checkpoint_location)


def _content(options: SinkOptions, batch: BatchName, reports: Sequence[TaskReport]) -> Content:
    rows = sum(each.rows for each in reports)
    digests = [each.digest for each in reports if each.digest is not None]
    if digests:
        return Content(rows, digest=f"{sum(digests) % DIGEST_MODULUS:032x}")
    if batch.of_a_job:
        return Content(rows)
    assert options.checkpoint_location, "without a checkpoint rows are digested"
    try:
        return Content(rows, offsets=offsets_of(options.checkpoint_location, batch.batch_id))
    except OSError as problem:
        raise CheckpointUnreadable(
            f"the offsets of {batch} cannot be read from {options.checkpoint_location} "
            f"({problem}); without them the batch could not be recognised if it is repeated"
        ) from problem


def _tell(sink_id: str, settled: TakenOverSink) -> None:
    if settled.finished and settled.last is not None:
        _log.info("sink %s: finished %s, which was decided", sink_id, settled.last.batch)
    if settled.lost is not None:
        _log.warning("sink %s: %d rows were lost (on.lost)", sink_id, settled.lost.rows)
    if settled.aborted:
        oldest_ms = max(0, now_ms() - min(each.started_ms for each in settled.aborted))
        _log.info(
            "sink %s: aborted %d transactions that no batch was committed with, the oldest "
            "%.1f s old",
            *(sink_id, len(settled.aborted), oldest_ms / 1000),
        )


@functools.cache
def _warn_of_old_transactions(bootstrap: str) -> None:
    """Warn about old transactions, once per process."""
    _log.warning(
        "the cluster at %s has transaction.version below 2: a task that outlives its batch may "
        "open another transaction, which holds back readers until the next batch. "
        "`kafka-features upgrade --feature transaction.version=2` ends that",
        bootstrap,
    )
