"""DescribeTransactions and ListTransactions: the state of a coordinator, for people and tools."""

from penstock.coordinator.transactions.events import DescribeTransaction, ListTransactionalIds
from penstock.coordinator.transactions.state import TransactionMetadata, TransactionStore
from penstock.effects import Outcome
from penstock.errors import TransactionalIdNotFound


class DescribeRequests:
    def __init__(self, transactions: TransactionStore) -> None:
        self._transactions = transactions

    def describe(self, event: DescribeTransaction) -> Outcome:
        known = self._transactions.find(event.transactional_id)
        if known is None:
            raise TransactionalIdNotFound(f"{event.transactional_id!r} is not known")
        return Outcome(reply=known)

    def list_ids(self, event: ListTransactionalIds, now_ms: int) -> Outcome:
        return Outcome(reply=[each for each in self._transactions if _passes(each, event, now_ms)])


def _passes(known: TransactionMetadata, wanted: ListTransactionalIds, now_ms: int) -> bool:
    if wanted.producer_ids and known.producer.producer_id not in wanted.producer_ids:
        return False
    if wanted.states and known.status.title not in wanted.states:
        return False
    return wanted.longer_than_ms < 0 or now_ms - known.started_ms > wanted.longer_than_ms
