"""Producers of Python values on librdkafka: asyncio (aio.py) and blocking (blocking.py).

sending/       encoding, batches, the backlog, the hot path, librdkafka's producer
polling/       polls for delivery reports, in the event loop and in threads
delivery/      tracking of sent and delivered records; errors of undelivered ones
transactions/  librdkafka's transaction calls, and the `with` blocks of both faces
"""

from penstock.client.failures import WrongLoop
from penstock.client.producer.aio import Producer
from penstock.client.producer.delivery.delivery_errors import (
    BatchFailed,
    FailedRecord,
    RecordsUndelivered,
)
from penstock.client.producer.delivery.delivery_tracker import BatchDelivered
from penstock.client.producer.polling.futures import Delivery
from penstock.client.producer.sending.core import ProducerPartition
from penstock.client.producer.transactions.aio_transactions import Transaction

__all__ = [
    "BatchDelivered",
    "BatchFailed",
    "Delivery",
    "FailedRecord",
    "Producer",
    "ProducerPartition",
    "RecordsUndelivered",
    "Transaction",
    "WrongLoop",
]
