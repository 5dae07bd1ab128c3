"""Simulated clients that follow a script: transactions and groups against a node that lives."""

from collections.abc import Callable

import pytest
from delivery_life import ADDRESS, DeliveryLife

from penstock.model import TopicPartition
from penstock.testing.sim.client import METADATA, METADATA_VERSION
from penstock.testing.sim.group_member import (
    ClassicMembership,
    ConsumerMembership,
    SimMembership,
)
from penstock.testing.sim.group_offsets import FetchedOffset, fetch_offsets, offset_commit
from penstock.testing.sim.partition_cursor import READ_COMMITTED, READ_UNCOMMITTED, PartitionCursor
from penstock.testing.sim.script import GROUP, TRANSACTION, Ask, Script, ScriptedClient, ScriptPause
from penstock.testing.sim.transactional import (
    CommittingMember,
    RequestRejected,
    TransactionalProducer,
    TransactionApiVersions,
)
from penstock.testing.sim.zombies import Grants, Owners
from penstock.wire.messages.k03_metadata import MetadataRequest

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
FIRST = ORDERS[0]


class Scripted(ScriptedClient):
    def __init__(
        self, life: DeliveryLife, name: str, script: "Callable[[Scripted], Script[None]]"
    ) -> None:
        super().__init__(life.simulation, name, ADDRESS)
        self._follow = script

    def script(self) -> Script[None]:
        return self._follow(self)


class Stage:
    """A node with its topics, and clients that come one after the other."""

    def __init__(self) -> None:
        self.life = DeliveryLife(7, "page-cache", power=False)
        self.grants, self.owners = Grants(), Owners()
        self.life.start()
        self.life.admin.start()

    def play(self, *scripts: Callable[[Scripted], Script[None]]) -> None:
        clients = [Scripted(self.life, f"client-{n}", each) for n, each in enumerate(scripts)]
        for client in clients:
            client.start()
        self.life.simulation.run_until(lambda: all(each.finished for each in clients), 60_000)

    def producer(
        self, client: Scripted, name: str, *, new_protocol: bool
    ) -> Script[TransactionalProducer]:
        topics = yield from client.topics(["orders"])
        yield from client.coordinator(TRANSACTION, name)
        versions = TransactionApiVersions.draw(client.chance, new_protocol=new_protocol)
        producer = TransactionalProducer(
            client, name, versions, topics, self.grants, timeout_ms=10_000
        )
        yield from producer.begin_life(goes_on=False)
        return producer

    def values(self, isolation: int) -> list[bytes]:
        """What is in the first partition, as a consumer of this isolation sees it."""
        found: list[bytes] = []

        def read(client: Scripted) -> Script[None]:
            topics = yield from client.topics(["orders"])
            cursor = PartitionCursor(client.name, client.chance, topics, isolation, sessions=False)
            cursor.positions[FIRST] = 0
            for _ in range(10):
                found.extend(each.value for each in cursor.take((yield cursor.request())))

        self.play(read)
        return found


def test_a_script_hears_none_when_its_connection_breaks() -> None:
    heard: list[object] = []
    stage = Stage()

    def ask(client: Scripted) -> Script[None]:
        assert client.link is not None
        client.link.peer.close()
        heard.append((yield Ask(METADATA, METADATA_VERSION, MetadataRequest(topics=[]))))
        heard.append((yield Ask(METADATA, METADATA_VERSION, MetadataRequest(topics=[]))))

    stage.play(ask)
    assert heard[0] is None
    assert heard[1] is not None


@pytest.mark.parametrize("new_protocol", [False, True])
def test_records_show_once_their_transaction_is_committed(new_protocol: bool) -> None:
    stage = Stage()

    def produce(client: Scripted) -> Script[None]:
        producer = yield from stage.producer(client, "billing", new_protocol=new_protocol)
        for value, committed in ((b"given up", False), (b"kept", True)):
            yield from producer.send({FIRST: [value]}, {})
            yield from producer.end(committed=committed)

    stage.play(produce)
    seen = [stage.values(READ_UNCOMMITTED), stage.values(READ_COMMITTED)]
    assert seen == [[b"given up", b"kept"], [b"kept"]]


@pytest.mark.parametrize("new_protocol", [False, True])
def test_offsets_count_once_their_transaction_is_committed(new_protocol: bool) -> None:
    stage = Stage()
    offsets: list[dict[TopicPartition, FetchedOffset]] = []

    def work(client: Scripted) -> Script[None]:
        producer = yield from stage.producer(client, "billing", new_protocol=new_protocol)
        topics = yield from client.topics(["orders"])
        yield from client.coordinator(GROUP, "group")
        for offset, committed in ((5, True), (9, False)):
            epochs = {FIRST: offset - 2}
            yield from producer.commit_offsets("group", {FIRST: offset}, CommittingMember(), epochs)
            offsets.append((yield from fetch_offsets(8, "group", [FIRST], topics)))
            yield from producer.end(committed=committed)
            yield ScriptPause(100.0)
            offsets.append((yield from fetch_offsets(8, "group", [FIRST], topics)))

    stage.play(work)
    stable = {FIRST: FetchedOffset(5, leader_epoch=3)}
    assert offsets == [{}, stable, {}, stable], "unstable while they are pending"


@pytest.mark.parametrize(("version", "leader_epoch"), [(5, -1), (6, 3), (10, 3)])
def test_a_committed_offset_keeps_the_leader_epoch_of_its_record(
    version: int, leader_epoch: int
) -> None:
    stage = Stage()
    found: list[dict[TopicPartition, FetchedOffset]] = []

    def work(client: Scripted) -> Script[None]:
        topics = yield from client.topics(["orders"])
        yield from client.coordinator(GROUP, "group")
        member = CommittingMember()
        yield offset_commit(version, "group", {FIRST: 5}, topics, member, {FIRST: 3})
        found.append((yield from fetch_offsets(8, "group", [FIRST], topics)))

    stage.play(work)
    assert found == [{FIRST: FetchedOffset(5, leader_epoch)}]


def test_a_successor_fences_its_predecessor() -> None:
    stage = Stage()
    refused: list[RequestRejected] = []

    def work(client: Scripted) -> Script[None]:
        old = yield from stage.producer(client, "billing", new_protocol=True)
        yield from old.send({FIRST: [b"late"]}, {})
        yield from stage.producer(client, "billing", new_protocol=False)
        with pytest.raises(RequestRejected) as caught:
            yield from old.end(committed=True)
        refused.append(caught.value)

    stage.play(work)
    assert refused[0].certain
    assert stage.values(READ_COMMITTED) == []
    assert stage.grants.violations == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_group_share_its_partitions(protocol: str) -> None:
    stage = Stage()
    members: list[SimMembership] = []

    def member(client: Scripted) -> Script[None]:
        topics = yield from client.topics(["orders"])
        yield from client.coordinator(GROUP, "group")
        made: SimMembership = (
            ClassicMembership(
                client, "group", topics, stage.owners, session_ms=500, rebalance_ms=500
            )
            if protocol == "classic"
            else ConsumerMembership(client, "group", topics, stage.owners, rebalance_ms=500)
        )
        members.append(made)
        while [len(each.partitions) for each in members] != [1, 1]:
            yield from made.speak()
            yield client.pause(5.0, 50.0)

    stage.play(member, member)
    assert sorted(place for each in members for place in each.partitions) == ORDERS
