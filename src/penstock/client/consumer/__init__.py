"""Consumers of Python values on librdkafka: asyncio (aio.py) and blocking (blocking.py).

core.py         what both are inside, and all they can be asked to do
plan.py         settings and names, decided before anything is opened; options.py: what may be said
ledger.py       what is unread, in hand and finished: pure, and so what may be committed
desk.py         what the polling thread and the application share, behind one lock
engine.py       librdkafka's consumer and its polling thread
partitions.py   what librdkafka reads for us: positions, pauses, moves
rebalancing.py  partitions come and go; committing.py: finished offsets on their way to the group
resetting.py    partitions without an offset; troubles.py: which reports somebody has to hear of
places.py       offsets that only a broker can tell
reading.py      from librdkafka's messages to records; asking.py: those that need a schema first
aio_loops.py    steps of loops in asyncio; blocking_loops.py: in threads
faces.py        how the engine reaches their bodies
"""

from penstock.client.consumer.aio import Consumer
from penstock.client.consumer.aio_loops import Batch, BatchLoop, RecordLoop
from penstock.client.consumer.plan import PlaceLike, Position
from penstock.client.consumer.troubles import PartitionWithoutOffset

__all__ = [
    "Batch",
    "BatchLoop",
    "Consumer",
    "PartitionWithoutOffset",
    "PlaceLike",
    "Position",
    "RecordLoop",
]
