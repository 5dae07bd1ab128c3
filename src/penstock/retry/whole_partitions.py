"""Everything that is committed in some partitions, from their beginning to where they end now.

The end is the one that counts records of open transactions, too: those are waited for. A
transaction's markers reach its partitions one after the other, and whoever has seen the offsets of
one must not miss what it wrote beside them.
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
# Without any progress; an open transaction of a process that died ends within its own timeout.
STILL_SECONDS_MAX = 90.0
_NOT_FOR_READING = ("group.id", "group.instance.id", "group.protocol", "group.remote.assignor")


async def read_whole(
    admin: Admin,
    settings: Mapping[str, SettingValue],
    places: Sequence[TopicPartition],
    *,
    namespace: str | None = None,
    starts: Mapping[TopicPartition, int] | None = None,
) -> AsyncGenerator[Record[bytes, bytes], None]:
    """Records in the order of each partition; `settings` are a consumer's, its group is left out.

    TimedOut if the end is not reached because a transaction stays open.
    """
    begins = await _offsets(admin, places, At.BEGINNING)
    for place, start in (starts or {}).items():
        begins[place] = max(begins[place], start)
    ends = await _offsets(admin, places, At.END)
    left = {place: end for place, end in ends.items() if end > begins[place]}
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
                place: end
                for place, end in left.items()
                if (await reader.position(place) or 0) < end
            }
            if batch or len(still) < len(left):
                moved_at = monotonic()
            elif monotonic() - moved_at > STILL_SECONDS_MAX:
                place = next(iter(still))
                raise TimedOut(f"the end of {place} was not reached: a transaction stays open")
            left = still


async def _offsets(
    admin: Admin, places: Sequence[TopicPartition], at: At
) -> dict[TopicPartition, int]:
    found = await admin.offsets(dict.fromkeys(places, int(at)))
    for each in found.values():
        if isinstance(each, KafkaError):
            raise each
    return {place: each.offset for place, each in found.items() if not isinstance(each, KafkaError)}
