"""What may be said to a consumer beside its settings; the same for both twins."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

from penstock.client.consumer.plan import PartitionsCallback, Position
from penstock.client.interceptors import ConsumerInterceptor
from penstock.model import TopicPartition


class ConsumerOptions(TypedDict, total=False):
    """All may be left out."""

    bootstrap: str | None
    group: str | None
    # What to read: one of the three, or none and subscribe() or assign() later.
    topics: Collection[str] | None
    pattern: str | None
    assign: Mapping[TopicPartition, Position | None] | None
    interceptors: Sequence[ConsumerInterceptor]
    namespace: str | None
    # Loop bodies do not finish records; finish(record) does.
    manual_finish: bool
    # Called with the partitions that come and go; the asyncio consumer also takes coroutines.
    on_assigned: PartitionsCallback | None
    on_revoked: PartitionsCallback | None
    on_lost: PartitionsCallback | None


KNOWN = frozenset({*ConsumerOptions.__annotations__, "key", "value"})
