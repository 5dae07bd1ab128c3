"""Producers of Python values on librdkafka: asyncio (aio.py) and blocking (blocking.py).

core.py         what both are inside; `fluent`, the one question of the hot path
ledger.py       what was sent and what is reported, page by page; receipts.py: one record's
encoding.py     from what a caller says to bytes, headers and a partition
handle.py       librdkafka's producer, polled by one thread at a time
pump.py         the event loop's side; backlog.py: records that wait for room, in order
blocking_core.py  the caller's side of the blocking one
batches.py      many records in one call
transactions.py   what librdkafka's errors mean; aio_ and blocking_ have the `with` blocks
"""

from penstock.client.failures import WrongLoop
from penstock.client.producer.aio import Producer
from penstock.client.producer.aio_transactions import Transaction
from penstock.client.producer.awaitables import Delivery
from penstock.client.producer.core import Partition
from penstock.client.producer.ledger import BatchDelivered
from penstock.client.producer.undelivered import BatchFailed, FailedRecord, RecordsUndelivered

__all__ = [
    "BatchDelivered",
    "BatchFailed",
    "Delivery",
    "FailedRecord",
    "Partition",
    "Producer",
    "RecordsUndelivered",
    "Transaction",
    "WrongLoop",
]
