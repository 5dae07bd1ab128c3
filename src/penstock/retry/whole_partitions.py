"""Reads all committed records of partitions, from their beginning to their current end.

The end includes records of open transactions; the reader waits for these. Markers of a transaction
reach its partitions one after the other, so a reader that has seen the committed offsets must wait
for the records written with these.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from time import monotonic

from penstock.client.admin.aio import Admin
from penstock.client.consumer import Consumer
from penstock.client.failures import TimedOut
from penstock.client.records import Record
from penstock.client.settings import SettingValue
from penstock.client.values import At
from penstock.errors import KafkaError
from penstock.model import TopicPartition

STEP_RECORDS = 1_000
STEP_SECONDS = 0.05
# Without progress; an open transaction of a dead process ends within its own timeout.
STILL_SECONDS_MAX = 90.0
_NOT_FOR_READING = ("group.id", "group.instance.id", "group.protocol", "group.remote.assignor")


async def read_to_end(
    admin: Admin,
    settings: Mapping[str, SettingValue],
    topic_partitions: Sequence[TopicPartition],
    *,
    namespace: str | None = None,
) -> AsyncGenerator[Record[bytes, bytes], None]:
    """Yield records in the order of each partition; `settings` are a consumer's, without its group.

    Raise TimedOut if the end is not reached because a transaction stays open.
    """
    begins = await _offsets(admin, topic_partitions, At.BEGINNING)
    ends = await _offsets(admin, topic_partitions, At.END)
    left = {
        topic_partition: end
        for topic_partition, end in ends.items()
        if end > begins[topic_partition]
    }
    if not left:
        return
    alone = {name: value for name, value in settings.items() if name not in _NOT_FOR_READING}
    alone.update({"isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    reader = Consumer(alone, assign={each: begins[each] for each in left}, namespace=namespace)
    async with reader:
        moved_at = monotonic()
        while left:
            batch = await reader.take(STEP_RECORDS, STEP_SECONDS)
            for record in batch:
                if record.offset < ends[record.place]:
                    yield record
            still = {
                topic_partition: end
                for topic_partition, end in left.items()
                if (await reader.position(topic_partition) or 0) < end
            }
            if batch or len(still) < len(left):
                moved_at = monotonic()
            elif monotonic() - moved_at > STILL_SECONDS_MAX:
                topic_partition = next(iter(still))
                raise TimedOut(
                    f"the end of {topic_partition} was not reached: a transaction stays open"
                )
            left = still


async def _offsets(
    admin: Admin, topic_partitions: Sequence[TopicPartition], at: At
) -> dict[TopicPartition, int]:
    found = await admin.offsets(dict.fromkeys(topic_partitions, int(at)))
    for each in found.values():
        if isinstance(each, KafkaError):
            raise each
    return {
        topic_partition: each.offset
        for topic_partition, each in found.items()
        if not isinstance(each, KafkaError)
    }
