"""A task's part (rule 2): which transactional id it may use, what it writes, what it reports.

An id belongs to one worker process. A worker uses one again only for a newer plan: planning has
finished or aborted everything that older plans left, so nothing that could still be decided is
open under it. A task of an older plan that comes late gets an id of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.model import TopicPartition
from penstock.spark.sink.admitting import may_write
from penstock.spark.sink.decisions import (
    BatchName,
    Driver,
    LastBatch,
    Producer,
    RowsAt,
    WrittenTransaction,
)

DIGEST_MODULUS = 2**128


@dataclass(frozen=True, slots=True)
class Carried:
    """What planning hands to the tasks, and their reports hand to commit."""

    driver: Driver
    last: LastBatch | None
    planned_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    sink_id: str
    carried: Carried
    new_checkpoint_allowed: bool = False
    two_phase_commit: bool = True  # where the cluster has it
    digest_rows: bool = False

    def writes(self, batch: BatchName) -> bool:
        """Whether a task has to write its rows; if not, it only counts them."""
        return may_write(
            self.sink_id,
            self.carried.last,
            batch,
            new_checkpoint_allowed=self.new_checkpoint_allowed,
        )


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task tells the driver. Without rows there is no transaction."""

    carried: Carried
    batch: BatchName
    rows: int = 0
    digest: int | None = None
    transaction: WrittenTransaction | None = None


class Slots:
    """The ordinals of one worker process, for one sink."""

    def __init__(self) -> None:
        self._used_by: list[Producer | None] = []

    def take(self, driver: Producer) -> int:
        """The lowest ordinal that was last used for an older plan, else a new one."""
        for ordinal, user in enumerate(self._used_by):
            if user is not None and _is_older(user, driver):
                self._used_by[ordinal] = driver
                return ordinal
        self._used_by.append(driver)
        return len(self._used_by) - 1

    def abandon(self, ordinal: int) -> None:
        """An InitProducerId that was sent and not answered may still arrive, however late, and
        would abort what is then open. The id is never used again."""
        self._used_by[ordinal] = None


def _is_older(user: Producer, driver: Producer) -> bool:
    """Epochs of different producer ids have no order: then nothing is known."""
    return user.producer_id == driver.producer_id and user.epoch < driver.epoch


class TaskPart:
    """One task's rows of one batch, from the first to the report."""

    def __init__(self, plan: Plan, batch: BatchName) -> None:
        self._report = TaskReport(plan.carried, batch, digest=0 if plan.digest_rows else None)
        self._written: dict[TopicPartition, int] = {}
        self.writes = plan.writes(batch)

    @property
    def transaction(self) -> WrittenTransaction | None:
        return self._report.transaction

    def counted(self, rows: int, digest: int = 0) -> None:
        """So many rows came by, whether they are written or not."""
        before = self._report.digest
        after = None if before is None else (before + digest) % DIGEST_MODULUS
        self._report = replace(self._report, rows=self._report.rows + rows, digest=after)

    def opened(
        self, transactional_id: str, producer: Producer, now_ms: int, timeout_ms: int | None
    ) -> None:
        """Just before the first row is written."""
        assert self.writes, "a batch that was decided before is not written again"
        assert self._report.transaction is None, "a task writes in one transaction"
        transaction = WrittenTransaction(transactional_id, producer, (), now_ms, timeout_ms)
        self._report = replace(self._report, transaction=transaction)

    def wrote(self, rows: Mapping[TopicPartition, int]) -> None:
        for place, count in rows.items():
            self._written[place] = self._written.get(place, 0) + count

    def report(self) -> TaskReport:
        """When everything has been acknowledged."""
        transaction = self._report.transaction
        if transaction is None:
            return self._report
        written = tuple(RowsAt(*place, rows) for place, rows in sorted(self._written.items()))
        assert sum(each.rows for each in written) > 0, "a transaction opens at the first row"
        return replace(self._report, transaction=replace(transaction, written=written))
