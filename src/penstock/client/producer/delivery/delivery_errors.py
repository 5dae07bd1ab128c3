"""Errors of undelivered records, grouped by cause."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.failures import ClientError, is_fatal, is_retriable


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """An undelivered record as bytes, with its position in a batch."""

    topic: str
    key: bytes | None
    value: bytes | None
    error: Exception
    index: int | None = None


class RecordsUndelivered(ClientError):
    """Records were not delivered."""

    def __init__(self, failures: Sequence[FailedRecord], count: int) -> None:
        self.failures = tuple(failures)
        self.count = count
        causes = Counter(type(each.error).__name__ for each in self.failures)
        kinds = ", ".join(f"{many} x {name}" for name, many in causes.most_common())
        more = "" if len(self.failures) == count else f" among the first {len(self.failures)}"
        first = f": {self.failures[0].error}" if self.failures else ""
        what = f"{self._said(count)} ({kinds}{more}{first})" if kinds else self._said(count)
        super().__init__(what, next_step="`failures` has the records and their errors")
        self.retriable = bool(self.failures) and all(is_retriable(f.error) for f in self.failures)
        self.fatal = any(is_fatal(each.error) for each in self.failures)

    def _said(self, count: int) -> str:
        return f"{count} record{' was' if count == 1 else 's were'} not delivered"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.failures, self.count)


class BatchFailed(RecordsUndelivered):
    """Some records of a batch were not delivered; `delivered` says how many were."""

    def __init__(self, failures: Sequence[FailedRecord], delivered: int) -> None:
        self.delivered = delivered
        super().__init__(failures, len(failures))

    def _said(self, count: int) -> str:
        return f"{count} of {count + self.delivered} records of the batch were not delivered"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.failures, self.delivered)
