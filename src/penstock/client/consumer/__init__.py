"""Consumers of Python values on librdkafka: asyncio (aio.py) and blocking (blocking.py).

engine/      polling thread, operations, shared state, error policy, messages as records
loops/       steps of the loops over records and batches
offsets/     tracking of finished offsets, commits, lookups
assignment/  settings, partitions, rebalances
"""

from penstock.client.consumer.aio import Consumer
from penstock.client.consumer.assignment.resolved_config import PlaceLike, Position
from penstock.client.consumer.engine.error_policy import PartitionWithoutOffset
from penstock.client.consumer.loops.aio_loops import Batch, BatchLoop, RecordLoop

__all__ = [
    "Batch",
    "BatchLoop",
    "Consumer",
    "PartitionWithoutOffset",
    "PlaceLike",
    "Position",
    "RecordLoop",
]
