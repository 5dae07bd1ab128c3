"""Options of a consumer beside its settings, the same for both faces."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

from penstock.client.addresses import BootstrapLike
from penstock.client.consumer.assignment.resolved_config import PartitionsCallback, Position
from penstock.client.interceptors import ConsumerInterceptor
from penstock.model import TopicPartition


class ConsumerOptions(TypedDict, total=False):
    """Optional keyword arguments of Consumer."""

    bootstrap: BootstrapLike | None
    group: str | None
    # At most one of the three; subscribe() or assign() may follow later.
    topics: Collection[str] | None
    pattern: str | None
    assign: Mapping[TopicPartition, Position | None] | None
    interceptors: Sequence[ConsumerInterceptor]
    namespace: str | None
    # finish(record) finishes records, not the end of the loop's body.
    manual_finish: bool
    # Called with the assigned, revoked or lost partitions; coroutines in asyncio only.
    on_assigned: PartitionsCallback | None
    on_revoked: PartitionsCallback | None
    on_lost: PartitionsCallback | None


KNOWN = frozenset({*ConsumerOptions.__annotations__, "key", "value"})
