"""One task (rule 2): its transactional id, its rows, its report.

An id belongs to one worker process. A worker uses an id again only for a newer plan: planning has
finished or aborted everything of older plans, so no transaction under the id can still be decided.
A late task of an older plan gets an id of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.model import TopicPartition
from penstock.spark.sink.admission import may_write
from penstock.spark.sink.decisions import (
    BatchName,
    Driver,
    LastBatch,
    RowsAt,
    SinkProducer,
    WrittenTransaction,
)

DIGEST_MODULUS = 2**128


@dataclass(frozen=True, slots=True)
class Carried:
    """The values that planning passes to the tasks, and their reports pass to commit."""

    driver: Driver
    last: LastBatch | None
    planned_ms: int


@dataclass(frozen=True, slots=True)
class TaskPlan:
    sink_id: str
    carried: Carried
    new_checkpoint_allowed: bool = False
    two_phase_commit: bool = True  # where the cluster has it
    digest_rows: bool = False

    def writes(self, batch: BatchName) -> bool:
        """Return whether a task has to write its rows; if not, it only counts them."""
        return may_write(
            self.sink_id,
            self.carried.last,
            batch,
            new_checkpoint_allowed=self.new_checkpoint_allowed,
        )


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of a task to the driver. Without rows there is no transaction."""

    carried: Carried
    batch: BatchName
    rows: int = 0
    digest: int | None = None
    transaction: WrittenTransaction | None = None


class Slots:
    """The ordinals of one worker process, for one sink."""

    def __init__(self) -> None:
        self._used_by: list[SinkProducer | None] = []

    def take(self, driver: SinkProducer) -> int:
        """Return the lowest ordinal that was last used for an older plan, else a new one."""
        for ordinal, user in enumerate(self._used_by):
            if user is not None and _is_older(user, driver):
                self._used_by[ordinal] = driver
                return ordinal
        self._used_by.append(driver)
        return len(self._used_by) - 1

    def abandon(self, ordinal: int) -> None:
        """Exclude an id from further use. Its unanswered InitProducerId may reach the cluster late,
        and would abort the open transaction."""
        self._used_by[ordinal] = None


def _is_older(user: SinkProducer, driver: SinkProducer) -> bool:
    """Return whether a plan is older. Epochs of different producer ids have no order: then it is
    not."""
    return user.producer_id == driver.producer_id and user.epoch < driver.epoch


class TaskPart:
    """One task's rows of one batch, from the first to the report."""

    def __init__(self, plan: TaskPlan, batch: BatchName) -> None:
        self._report = TaskReport(plan.carried, batch, digest=0 if plan.digest_rows else None)
        self._written: dict[TopicPartition, int] = {}
        self.writes = plan.writes(batch)

    @property
    def transaction(self) -> WrittenTransaction | None:
        return self._report.transaction

    def counted(self, rows: int, digest: int = 0) -> None:
        """Count rows, written or not."""
        before = self._report.digest
        after = None if before is None else (before + digest) % DIGEST_MODULUS
        self._report = replace(self._report, rows=self._report.rows + rows, digest=after)

    def opened(
        self, transactional_id: str, producer: SinkProducer, now_ms: int, timeout_ms: int | None
    ) -> None:
        """Note the transaction, just before the first row is written."""
        assert self.writes, "a batch that was decided before is not written again"
        assert self._report.transaction is None, "a task writes in one transaction"
        transaction = WrittenTransaction(transactional_id, producer, (), now_ms, timeout_ms)
        self._report = replace(self._report, transaction=transaction)

    def wrote(self, rows: Mapping[TopicPartition, int]) -> None:
        for place, count in rows.items():
            self._written[place] = self._written.get(place, 0) + count

    def report(self) -> TaskReport:
        """Return the report, once every row is acknowledged."""
        transaction = self._report.transaction
        if transaction is None:
            return self._report
        written = tuple(RowsAt(*place, rows) for place, rows in sorted(self._written.items()))
        assert sum(each.rows for each in written) > 0, "a transaction opens at the first row"
        return replace(self._report, transaction=replace(transaction, written=written))
