"""A group coordinator on the runtime, which refuses events while it loads: what it misses then."""

from collections.abc import Collection, Mapping

from machine_fakes import FakeLog, FakeTime

from penstock.coordinator.cluster import TopicView
from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.machine import GroupCoordinator
from penstock.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.machine.runtime import Runtime, RuntimeState
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ORDERS = TopicView("orders", b"orders" + bytes(10), (frozenset(),))


class Topics:
    """A penstock.coordinator.cluster.ClusterView."""

    def __init__(self) -> None:
        self.known = {ORDERS.name: ORDERS}

    def topic(self, name: str) -> TopicView | None:
        return self.known.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicView | None:
        return next((each for each in self.known.values() if each.topic_id == topic_id), None)

    def topic_names(self) -> Collection[str]:
        return self.known

    def consumer_assignment_interval_ms(self) -> int:
        return 0

    def group_config(self, group_id: str) -> Mapping[str, str]:  # noqa: ARG002
        return {}


def _commit(offset: int) -> GroupRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(
        name=ORDERS.name, topic_id=ORDERS.topic_id, partitions=[partition]
    )
    return GroupRequest(OffsetCommitRequest(group_id="g", topics=[topic]), 9)


def test_a_topic_that_is_deleted_during_a_load_leaves_no_offsets_behind() -> None:
    topics, time, log = Topics(), FakeTime(), FakeLog(per_slice=1)
    runtime = Runtime(
        lambda: GroupCoordinator(GroupSettings(), topics),
        log,
        time,
        time,
        while_loading=CoordinatorLoadInProgress,
        when_lost=NotCoordinator,
        when_full=CoordinatorNotAvailable,
    )
    runtime.gained_now()
    for offset in range(3):
        runtime.submit(_commit(offset))
        log.commit(log.end_offset)

    runtime.gained()
    time.turn()
    assert runtime.state is RuntimeState.LOADING
    del topics.known[ORDERS.name]
    runtime.submit(TopicsChanged((ORDERS.name,), ((ORDERS.name, ORDERS.topic_id),)))
    while time.next:
        time.turn()
    assert runtime.machine.state.offsets.has_offsets("g")
    time.advance(0)
    assert not runtime.machine.state.offsets.has_offsets("g")
