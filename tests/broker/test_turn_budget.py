"""No request holds up the loop: the largest requests of every API, by the work they do in a turn.

Work is counted in calls, of Python and of C: the same on every machine. Where one call of C may be
long, the time of the processor is measured.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest
from large_requests import TOPIC, Large, large, paths
from simulated_node import Bench

import depth
from penstock.broker import sliced_work
from penstock.broker.handlers import HANDLERS
from penstock.controller.delta import Delta
from penstock.coordinator.events import TopicsChanged
from penstock.wire.apis import APIS, request_class
from penstock.wire.frame import request_frame
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest
from penstock.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.wire.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from penstock.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

ITEMS = 12_000 if depth.WHOLE else 6_000
CALLS_PER_TURN_MAX = 45_000  # some five milliseconds; few calls per element would be too many
MEASUREMENTS = 3
TURN_MS_MAX = 60.0  # of the processor: some three times the longest one
TURNS_MAX = 20_000


class CountedTurns:
    """Counts the calls in each turn of a node's loop."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._calls = 0
        self.most = 0

    def _begin(self) -> None:
        sys.setprofile(self._note)

    def _note(self, _frame: FrameType, event: str, _argument: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def _turn_ended(self) -> None:
        type(self._bench.world).end_turn(self._bench.world)
        self.most = max(self.most, self._calls)
        self._calls = 0

    def ask(self, request: Large) -> bool:
        """Send a request; return whether it was answered."""
        listeners = {each.kind: each for each in self._bench.broker.listeners}
        kind = "broker" if "broker" in APIS[request.api_key].listeners else "controller"
        connection, peer = self._bench.connect(listener=listeners[kind])
        frame = request_frame(request.api_key, request.version, 1, "test", request.message)
        before = sys.getprofile()
        self._bench.world.end_turn = self._turn_ended  # type: ignore[method-assign]
        self._begin()
        try:
            self._bench.receive(connection, frame)
            for _ in range(TURNS_MAX):
                if peer.sent or peer.closed or not self._bench.simulation.step():
                    break
        finally:
            sys.setprofile(before)
            del self._bench.world.end_turn
        connection.close()
        connection.closed()
        return bool(peer.sent)


@pytest.fixture(scope="module")
def bench() -> Bench:
    made = Bench(
        {
            "auto.create.topics.enable": "false",
            "listeners": "PLAINTEXT://node:9092,CONTROLLER://node:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    made.create_topic(TOPIC, 1_000)
    return made


@pytest.fixture
def _no_collections() -> Iterator[None]:
    """Keep the collector away: a collection visits the objects of all tests."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def group_bench(bench: Bench) -> Bench:
    for name in ("__consumer_offsets", "__transaction_state"):
        bench.create_topic(name, 5)
    bench.settle()
    return bench


@pytest.fixture(autouse=True)
def _one_slice_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_work, "TURN_SLICES_MAX", 1)
    monkeypatch.setattr(sliced_work, "SLICES_IN_A_ROW_MAX", 1)


def _lists() -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield every list of every API, in the newest version that has it."""
    for key in HANDLERS:
        known: set[tuple[str, ...]] = set()
        low, high = APIS[key].versions
        for version in range(high, low - 1, -1):
            for path in paths(request_class(key), version):
                if path not in known:
                    known.add(path)
                    yield key, version, path


LISTS = [
    pytest.param(key, version, path, id=f"{APIS[key].name}-v{version}-{'.'.join(path)}")
    for key, version, path in _lists()
]


@pytest.mark.each_value
@pytest.mark.parametrize("equal", [False, True], ids=["different", "equal"])
@pytest.mark.parametrize(("key", "version", "path"), LISTS)
def test_a_long_list_takes_no_turn_for_itself(
    bench: Bench, key: int, version: int, path: tuple[str, ...], equal: bool
) -> None:
    CountedTurns(bench).ask(large(key, version, path, 1))  # its code is loaded now
    counted = CountedTurns(bench)
    assert counted.ask(large(key, version, path, ITEMS, equal=equal))
    assert counted.most <= CALLS_PER_TURN_MAX


class TimedTurns(CountedTurns):
    """Measures the processor time of each turn: one call of C may be long."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._began_s = 0.0
        self.longest_ms = 0.0

    def _begin(self) -> None:
        self._began_s = time.thread_time()

    def _turn_ended(self) -> None:
        super()._turn_ended()
        turn_s = time.thread_time() - self._began_s
        self.longest_ms = max(self.longest_ms, turn_s * 1_000)
        self._begin()


PAIRS = ",".join(f"{number % 10}:{number % 7}" for number in range(8_000))
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
MANY = 500_000


def _topics_with_long_lists() -> CreateTopicsRequest:
    configs = [CreatableTopicConfig(name=name, value=PAIRS) for name in THROTTLED]
    topics = [
        CreatableTopic(name=f"new-{number}", num_partitions=1, replication_factor=1)
        for number in range(4)
    ]
    for topic in topics:
        topic.configs = configs
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=True)


def _unknown_settings() -> DescribeConfigsRequest:
    names = [f"key-{number}" for number in range(MANY)]
    topic = DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=names)
    return DescribeConfigsRequest(resources=[topic])


def _topics_without_partitions() -> DescribeLogDirsRequest:
    topics = [DescribableLogDirTopic(topic=f"name-{number}") for number in range(MANY)]
    return DescribeLogDirsRequest(topics=topics)


def _long_group_ids(count: int) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[f"{number:030000}" for number in range(count)])


def _absent_partitions() -> AddPartitionsToTxnRequest:
    topic = AddPartitionsToTxnTopic(name=TOPIC, partitions=list(range(2 * MANY - 1)))
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="a",
        v3_and_below_producer_id=1,
        v3_and_below_topics=[topic],
    )


def _subscription(names: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=f"names-{names}",
        member_id="member",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[f"name-{number}" for number in range(names)],
        topic_partitions=[],
    )


def _long_metadata() -> JoinGroupRequest:
    topics = b"".join(b"\0\6%06d" % number for number in range(100_000))
    metadata = b"\0\1" + (100_000).to_bytes(4) + topics + bytes(8)
    return JoinGroupRequest(
        group_id="long metadata",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


@pytest.mark.usefixtures("_no_collections")
@pytest.mark.parametrize(
    ("key", "version", "make"),
    [
        pytest.param(19, 7, _topics_with_long_lists, id="settings with long lists"),
        pytest.param(32, 4, _unknown_settings, id="many names of settings"),
        pytest.param(35, 4, _topics_without_partitions, id="log directories of many topics"),
        pytest.param(15, 5, partial(_long_group_ids, 100), id="long group ids"),
        pytest.param(15, 5, partial(_long_group_ids, 300), id="many long group ids"),
        pytest.param(24, 3, _absent_partitions, id="many partitions for a transaction"),
        pytest.param(68, 1, partial(_subscription, 25_000), id="many subscribed topics"),
        pytest.param(68, 1, partial(_subscription, 100_000), id="too many subscribed topics"),
        pytest.param(11, 3, _long_metadata, id="long metadata of a member"),
    ],
)
def test_a_long_value_takes_no_turn_for_itself(
    group_bench: Bench, key: int, version: int, make: Callable[[], Any]
) -> None:
    longest_ms = []
    for _ in range(MEASUREMENTS):  # page faults of a busy machine lengthen some
        timed = TimedTurns(group_bench)
        assert timed.ask(Large(key, version, (), make()))
        longest_ms.append(timed.longest_ms)
    assert min(longest_ms) <= TURN_MS_MAX


def test_groups_hear_of_topics_made_in_one_turn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Bench({})
    made.create_topic("__consumer_offsets", 5)
    coordinators = made.broker.coordinators
    heard: list[TopicsChanged] = []

    def submit(event: Any) -> None:
        heard.append(event)

    for runtime in coordinators.groups.values():
        monkeypatch.setattr(runtime, "submit", submit)
    for number in range(100):
        coordinators.follow(Delta(created_topics=(f"new-{number}",)))
    made.settle()
    assert [len(event.names) for event in heard] == [100] * len(coordinators.groups)
