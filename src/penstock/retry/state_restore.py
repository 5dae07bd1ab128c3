"""Restores the committed state of a source partition before its first record is handled."""

from collections.abc import Iterable, Mapping
from contextlib import aclosing

from penstock.client.admin.aio import Admin
from penstock.client.settings import SettingValue
from penstock.model import TopicPartition
from penstock.retry.idempotency_keys import IdempotencyKeys
from penstock.retry.partition_state import Counts, PartitionState, RetryTopics
from penstock.retry.pending_keys import PendingKeys
from penstock.retry.route import TopicRoute
from penstock.retry.whole_partitions import read_to_end


def new_partition_state(
    route: TopicRoute,
    steps: RetryTopics,
    partition: int,
    counts: Counts,
    shared: IdempotencyKeys | None,
) -> PartitionState:
    """Return an empty state; `shared` has idempotency keys that only this process remembers."""
    seen = None
    if route.guard is not None:
        seen = IdempotencyKeys(route.guard.window_ms) if shared is None else shared
    written = route.seen_window_ms is not None
    return PartitionState(steps, partition, route.ordered, PendingKeys(), seen, written, counts)


async def restore(
    partition_states: Iterable[PartitionState],
    admin: Admin,
    settings: Mapping[str, SettingValue],
    namespace: str | None,
    now_ms: int,
) -> None:
    """Read the written pending keys and idempotency keys into the given states."""
    states: dict[TopicPartition, PartitionState] = {}
    for partition_state in partition_states:
        if partition_state.ordered:
            states[TopicPartition(partition_state.names.pending, partition_state.partition)] = (
                partition_state
            )
        if partition_state.seen_is_written:
            states[TopicPartition(partition_state.names.seen, partition_state.partition)] = (
                partition_state
            )
    if not states:
        return
    reading = read_to_end(admin, settings, list(states), namespace=namespace)
    async with aclosing(reading):
        async for record in reading:
            partition_state = states[record.place]
            if record.topic == partition_state.names.pending:
                partition_state.pending.restore([(record.key, record.value)])
            elif partition_state.seen is not None and record.key is not None and record.value:
                partition_state.seen.add(record.key, int(record.value), now_ms)
