"""Transactions and groups of a seed: their clients, the successors of those, and the judgement.

The history checker judges the answers that all clients got.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.coordinator.transactions.state import TransactionMetadata, TxnStatus
from penstock.errors import TopicAlreadyExists
from penstock.model import TRANSACTION_STATE_TOPIC, TopicPartition
from penstock.testing.history import Isolation, Pipeline, check
from penstock.testing.sim.client import CREATE_TOPICS
from penstock.testing.sim.cluster.actors import ClusterActor, ClusterRun
from penstock.testing.sim.cluster.delivery_client import (
    AUDIT,
    BILLING,
    BILLS,
    ORDERS,
    PARTITIONS_PER_TOPIC,
    READS,
    TOPIC_PARTITIONS,
    Deliveries,
    DeliveryClient,
)
from penstock.testing.sim.cluster.draws import REPLICAS
from penstock.testing.sim.cluster.group_position import (
    CommittingClient,
    JoinGroup,
    ProgressWatcher,
    WholeLogReader,
)
from penstock.testing.sim.cluster.routing import RoutedCall, RoutedScript, RoutingClient
from penstock.testing.sim.cluster.sim_cluster import SimCluster
from penstock.testing.sim.cluster.transactors import (
    FeedingClient,
    TakeOverClient,
    TransactionalClient,
    WorkingClient,
)
from penstock.testing.sim.group_member import (
    ClassicMembership,
    ConsumerMembership,
    SimMembership,
)
from penstock.testing.sim.invariants import require
from penstock.testing.sim.script import TopicFacts
from penstock.wire.messages import k19_create_topics

CREATE_PAUSE_MS = 50.0
LIVES_ON_CHANCE = 0.5  # of a client that is replaced
TAKE_OVER_CHANCE = 0.5  # that one of the feeders leaves open transactions to its successor
CLASSIC, CONSUMER, MIXED = "classic", "consumer", "mixed"


class TopicCreator(ClusterActor):
    """Creates the topics of all deliveries."""

    def script(self) -> RoutedScript[None]:
        for name in TOPIC_PARTITIONS:
            while not (yield from self._create(name)):
                yield self.rest(CREATE_PAUSE_MS)

    def _create(self, name: str) -> RoutedScript[bool]:
        topic = k19_create_topics.CreatableTopic(
            name=name, num_partitions=PARTITIONS_PER_TOPIC, replication_factor=REPLICAS
        )
        message = k19_create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=2_000)
        response = yield RoutedCall(self.any_broker(), CREATE_TOPICS, 7, message)
        code = -1 if response is None else response.topics[0].error_code
        return code in (0, TopicAlreadyExists.code)


class DeliveryRole:
    """A part that one client after another plays."""

    def __init__(self, make: Callable[[int], DeliveryClient]) -> None:
        self._make = make
        self.clients: list[DeliveryClient] = []

    @property
    def current(self) -> DeliveryClient:
        return self.clients[-1]

    def begin(self) -> None:
        """Start a client; a former one of the same transactional id is not current any more."""
        for client in self.clients:
            if isinstance(client, TransactionalClient):
                client.is_current = False
        self.clients.append(self._make(len(self.clients) + 1))
        self.current.start()


class DeliveryClients:
    """All clients of transactions and groups in a run."""

    def __init__(self, run: ClusterRun, cluster: SimCluster) -> None:
        self._run = run
        self._cluster = cluster
        chance = run.simulation.chance
        self.shared = Deliveries(
            run,
            timeout_ms=chance.choice((400, 1_500)),
            session_ms=run.draw.group_session_ms,
            pace_ms=chance.choice((20.0, 60.0, 120.0)),
        )
        self.creator = TopicCreator(run, "topic-creator")
        self.watcher = ProgressWatcher(self.shared, "watcher")
        protocol = chance.choice((CLASSIC, CONSUMER, MIXED))
        self.feeders = [self._feeder(f"feeder-{each}") for each in range(2)]
        if chance.random() < TAKE_OVER_CHANCE:
            self.feeders[-1] = self._owner("owner")
        self.members = [self._worker(f"worker-{each}", protocol) for each in range(2)]
        protocol = chance.choice((CLASSIC, CONSUMER, MIXED))
        self.members += [self._committer(f"audit-{each}", protocol) for each in range(2)]

    # -- clients

    def _feeder(self, name: str) -> DeliveryRole:
        return DeliveryRole(lambda life: FeedingClient(self.shared, f"{name}/{life}", name))

    def _owner(self, name: str) -> DeliveryRole:
        return DeliveryRole(lambda life: TakeOverClient(self.shared, f"{name}/{life}", name))

    def _worker(self, name: str, protocol: str) -> DeliveryRole:
        join = self._join(protocol, BILLING, name)
        return DeliveryRole(lambda life: WorkingClient(self.shared, f"{name}/{life}", name, join))

    def _committer(self, name: str, protocol: str) -> DeliveryRole:
        join = self._join(protocol, AUDIT, name)
        return DeliveryRole(lambda life: CommittingClient(self.shared, f"{name}/{life}", join))

    def _join(self, protocol: str, group: str, name: str) -> JoinGroup:
        """Return how the lives of a member join: static ones under an instance id."""
        chance, shared = self._run.simulation.chance, self.shared
        instance_id = name if chance.random() < 0.3 else None
        rebalance_ms = chance.choice((300, 600))

        def join(client: DeliveryClient, topics: Mapping[str, TopicFacts]) -> SimMembership:
            chosen = chance.choice((CLASSIC, CONSUMER)) if protocol == MIXED else protocol
            if chosen == CLASSIC:
                return ClassicMembership(
                    client,
                    group,
                    topics,
                    shared.owners,
                    session_ms=shared.session_ms,
                    rebalance_ms=rebalance_ms,
                    instance_id=instance_id,
                )
            return ConsumerMembership(
                client,
                group,
                topics,
                shared.owners,
                rebalance_ms=rebalance_ms,
                instance_id=instance_id,
            )

        return join

    @property
    def _roles(self) -> list[DeliveryRole]:
        return [*self.feeders, *self.members]

    def start(self) -> None:
        self.creator.start()
        self.watcher.start()
        for role in self._roles:
            role.begin()

    def disturb(self) -> None:
        """Let a client die, or be replaced while it lives; a dead one has a successor."""
        self.shared.late.release()
        chance = self._run.simulation.chance
        role = chance.choice(self._roles)
        client = role.current
        lives_on = isinstance(client, TransactionalClient) and chance.random() < LIVES_ON_CHANCE
        if not client.is_over and not lives_on:
            client.stop()
            client.process.crashed()
        self._run.count("clients replaced")
        role.begin()

    # -- the end

    def calm_down(self) -> None:
        """Let feeders finish, and see that each member lives, and each owner of a transaction
        without a time limit."""
        self.shared.is_calm = self.shared.late.is_quiet = True
        for client in self.shared.repetitions:
            client.stop()
        for role in self._roles:
            if role.current.is_over and type(role.current) is not FeedingClient:
                role.begin()

    def unrest(self) -> list[str]:
        """Return what goes on: work, open transactions, and groups that are not at the end."""
        if not self.creator.is_over:
            return ["topics are created"]
        found = [f"{each.current.name} works" for each in self.feeders if not each.current.is_over]
        found += [f"{each.transactional_id} is open" for each in self._open_transactions()]
        for group, topic in READS.items():
            for partition in TOPIC_PARTITIONS[topic]:
                position = max(0, self.watcher.progress.get((group, partition), -1))
                end_offset = self._end_of(partition)
                if position != end_offset:
                    found.append(f"{group} is at {position} of {end_offset} in {partition}")
        return found

    def _end_of(self, name: TopicPartition) -> int:
        """Return the end of a partition's log at its leader; -1 without a leader."""
        for node in self._cluster.running:
            hosted = node.broker.replicas.by_name.get(name.topic, {}).get(name.partition)
            if hosted is not None and hosted.leading:
                return hosted.log.end_offset
        return -1

    def _open_transactions(self) -> Iterator[TransactionMetadata]:
        for node in self._cluster.running:
            coordinators = node.broker.known_coordinators
            logs = node.broker.replicas.by_name.get(TRANSACTION_STATE_TOPIC, {})
            for index, runtime in coordinators.transactions.items() if coordinators else ():
                if index in logs and logs[index].leading:
                    for each in runtime.machine.transactions:
                        if each.status is TxnStatus.ONGOING or each.prepared:
                            yield each

    def readers(self) -> Sequence[RoutingClient]:
        """Return clients that read all logs to their ends, one per isolation level."""
        return [WholeLogReader(self.shared, f"last-{each.value}", each) for each in Isolation]

    def finish(self) -> None:
        """Let all clients come to their ends."""
        self.shared.is_over = True

    @property
    def are_over(self) -> bool:
        return self.watcher.is_over and all(
            client.is_over for role in self._roles for client in role.clients
        )

    def judge(self) -> None:
        """Raise for an answer that no correct cluster gives."""
        shared = self.shared
        for found in (
            shared.violations,
            shared.grants.violations,
            shared.owners.violations,
        ):
            require(not found, "\n".join(found))
        pipeline = Pipeline(BILLING, (ORDERS,), (BILLS,))
        check(shared.recorder.history(), pipelines=[pipeline]).require_clean()
