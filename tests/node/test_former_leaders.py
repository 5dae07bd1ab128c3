"""A leader that is cut off serves until it hears of its successor: what its fetches answer, and how
clients of the simulation find the successor."""

from dataclasses import dataclass
from typing import Any

import pytest
from replicated_topic import ALL_BYTES, REPLICATED, ReplicatedTopic, call

from penstock.controller.image import Image
from penstock.errors import FencedLeaderEpoch, OffsetOutOfRange, UnknownLeaderEpoch
from penstock.model import NO_LEADER_EPOCH
from penstock.testing.sim.client import FETCH
from penstock.testing.sim.cluster import SimCluster
from penstock.testing.sim.cluster.delivery_client import Deliveries, DeliveryClient
from penstock.testing.sim.cluster.ledger import ClusterLedger
from penstock.testing.sim.cluster.routing import RoutedScript
from penstock.testing.sim.script import TopicFacts
from penstock.wire.messages import k01_fetch as k01

FETCH_VERSION = 12
BEHIND_THE_END = 9


class Succession:
    """A former leader with an empty log, and its successor with two records."""

    def __init__(self) -> None:
        cluster = SimCluster(5, settings=REPLICATED)
        cluster.start()
        self.topic = ReplicatedTopic(cluster)
        self.topic.run_until_in_sync()
        self.former, self.former_epoch = self.topic.leader, self.topic.state.leader_epoch
        for node_id in {*cluster.nodes} - {self.former}:
            cluster.simulation.network.cut(f"node-{node_id}", f"node-{self.former}")
            cluster.simulation.network.cut(f"node-{self.former}", f"node-{node_id}")
        self.topic.run_until(lambda: self.topic.leader not in (-1, self.former))
        assert self.topic.produce(b"a", b"b") == 0
        self.epoch = self.topic.state.leader_epoch

    def fetch(self, node_id: int, epoch: int) -> int:
        """Return the code of a fetch behind the two records."""
        wanted = k01.FetchPartition(
            partition=0, fetch_offset=2, current_leader_epoch=epoch, partition_max_bytes=ALL_BYTES
        )
        topic = k01.FetchTopic(topic=self.topic.partition.topic, partitions=[wanted])
        message = k01.FetchRequest(max_wait_ms=0, max_bytes=ALL_BYTES, topics=[topic])
        response = call(self.topic.cluster, node_id, FETCH, FETCH_VERSION, message)
        code: int = response.responses[0].partitions[0].error_code
        return code

    @property
    def newest_image(self) -> Image:
        image: Image = self.topic.cluster.nodes[self.topic.leader].image
        return image


@pytest.fixture(scope="module")
def succession() -> Succession:
    return Succession()


def test_a_former_leader_does_not_know_the_epoch_of_its_successor(succession: Succession) -> None:
    assert succession.fetch(succession.former, succession.epoch) == UnknownLeaderEpoch.code


@pytest.mark.parametrize("names_its_epoch", [False, True])
def test_an_offset_of_the_successor_is_out_of_range_of_a_former_leader(
    succession: Succession, names_its_epoch: bool
) -> None:
    epoch = succession.former_epoch if names_its_epoch else NO_LEADER_EPOCH
    assert succession.fetch(succession.former, epoch) == OffsetOutOfRange.code


def test_the_successor_fences_the_former_epoch(succession: Succession) -> None:
    epoch = succession.former_epoch
    assert succession.fetch(succession.topic.leader, epoch) == FencedLeaderEpoch.code


# -- clients of the simulation


@dataclass
class _Run:
    """The run of clients beside a succession."""

    succession: Succession

    def __post_init__(self) -> None:
        cluster = self.succession.topic.cluster
        self.simulation = cluster.simulation
        self.broker_ids = tuple(cluster.nodes)
        self.ledger = ClusterLedger(unbound=set())

    @property
    def newest_image(self) -> Image:
        return self.succession.newest_image


class _PollingClient(DeliveryClient):
    """Polls once from an offset. The client knows the former leader only."""

    def __init__(self, succession: Succession, offset: int, leader_epoch: int) -> None:
        run: Any = _Run(succession)
        super().__init__(Deliveries(run, 1_000, 1_000, 1.0), "poller")
        self._partition = partition = succession.topic.partition
        self.facts = {partition.topic: TopicFacts(succession.topic.topic_id, 1)}
        self.leaders = {partition.topic: {0: succession.former}}
        self.leader_epochs = {partition: succession.former_epoch}
        self._offset, self._leader_epoch = offset, leader_epoch
        self.polled: list[Any] = []

    def script(self) -> RoutedScript[None]:
        cursor = self.cursor(self._partition)
        cursor.positions[self._partition] = self._offset
        cursor.leader_epochs[self._partition] = self._leader_epoch
        for _ in range(50):
            self.polled += yield from self.poll(cursor)


def _poll(succession: Succession, offset: int, leader_epoch: int) -> _PollingClient:
    client = _PollingClient(succession, offset, leader_epoch)
    client.start()
    succession.topic.run_until(lambda: client.is_over)
    return client


@pytest.mark.parametrize("knows_epoch", [False, True])
def test_a_client_finds_the_successor(succession: Succession, knows_epoch: bool) -> None:
    client = _poll(succession, 1, succession.epoch if knows_epoch else NO_LEADER_EPOCH)
    assert client.shared.violations == []
    assert [each.value for each in client.polled] == [b"b"]


@pytest.mark.parametrize("knows_epoch", [False, True])
def test_an_offset_that_the_newest_leader_lacks_is_a_violation(
    succession: Succession, knows_epoch: bool
) -> None:
    epoch = succession.epoch if knows_epoch else NO_LEADER_EPOCH
    client = _poll(succession, BEHIND_THE_END, epoch)
    assert "poller: t-0 went back behind 9" in client.shared.violations


def test_an_offset_of_its_own_epoch_that_a_former_leader_lacks_is_a_violation(
    succession: Succession,
) -> None:
    client = _PollingClient(succession, BEHIND_THE_END, succession.former_epoch)
    client.broker_ids = (succession.former,)
    client.start()
    succession.topic.run_until(lambda: client.is_over)
    assert "poller: t-0 went back behind 9" in client.shared.violations
