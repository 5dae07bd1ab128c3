"""Groups, offsets and transactions over a node that dies: one story from one seed, and its end."""

from collections.abc import Callable, Mapping, Sequence

from delivery_actors import BILLS, ORDERS, PARTITIONS, PLACES, Actor, Run, Transactor
from delivery_clients import (
    BILLING,
    Committer,
    Feeder,
    Join,
    LastReader,
    Reader,
    Watcher,
    Worker,
)
from delivery_groups import Inspector
from delivery_judges import (
    Patience,
    judge_durability,
    judge_leftovers,
    judge_stability,
    open_transactions,
)

from penstock.broker.broker import Broker
from penstock.config.broker import BrokerConfig
from penstock.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from penstock.node import PenstockNode
from penstock.testing.history import Isolation, Pipeline, Report, check
from penstock.testing.sim.client import ClientObservations, SimAdmin
from penstock.testing.sim.group_member import ClassicMembership, ConsumerMembership, SimMembership
from penstock.testing.sim.script import ScriptedClient, TopicFacts
from penstock.testing.sim.world import Simulation, SimWorld, Stuck, WorldDisk

ADDRESS = ("node", 9092)
ROOT = "data"
LIFE_MS = (20.0, 1_000.0)
STEP_MS = (1.0, 100.0)
STOP_MS_MAX = 30_000
FINISH_MS_MAX = 300_000
SETTLE_MS_MAX = 20_000
STEPS_MAX = 300
NEVER = -1
WRITES_MAX = 3  # that still go well before the disk is full
WRITTEN = ("", CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
AUDIT, LONERS = "audit", "loners"
READS = {BILLING: ORDERS, AUDIT: BILLS, LONERS: BILLS}


class Role:
    """A place that one client after another takes."""

    def __init__(self, make: Callable[[int], Actor]) -> None:
        self._make = make
        self.clients: list[Actor] = []

    @property
    def current(self) -> Actor:
        return self.clients[-1]

    def begin(self) -> None:
        for client in self.clients:
            if isinstance(client, Transactor):
                client.is_current = False
        client = self._make(len(self.clients) + 1)
        self.clients.append(client)
        client.start()


class DeliveryLife:
    """One simulation. `power` says whether its deaths also lose what was not synced."""

    def __init__(self, seed: int, durability: str, *, power: bool) -> None:
        self.simulation = Simulation(seed)
        self.chance = self.simulation.chance
        self.power = power
        self.disks: dict[str, WorldDisk] = {}
        self.world: SimWorld
        self.node: PenstockNode
        self.ready = self.stopped = False
        self.deaths = self.full_disks = 0
        self.report: Report
        self.patience = Patience()
        pick = self.chance.choice
        self.shared = Run(
            self.simulation,
            ADDRESS,
            timeout_ms=pick((400, 1_500, 4_000)),
            pace_ms=pick((2.0, 10.0, 25.0)),
        )
        self.shared.courier.coordinator_epoch = self._coordinator_epoch
        self._session_ms = pick((150, 500))
        self._settings = self._draw_settings(durability)
        self.admin = SimAdmin(
            self.simulation,
            "admin",
            ADDRESS,
            ClientObservations(),
            list(PARTITIONS.items()),
            passing=0,
        )
        self.roles = self._make_roles()
        self.watcher = Watcher(self.shared, "watcher", READS)
        self.readers = [Reader(self.shared, f"reader-{each.value}", each) for each in Isolation]

    def _draw_settings(self, durability: str) -> dict[str, str]:
        pick = self.chance.choice
        return {
            "listeners": f"PLAINTEXT://{ADDRESS[0]}:{ADDRESS[1]}",
            "log.dirs": ROOT,
            "log.durability": durability,
            "log.index.interval.bytes": str(pick((100, 4096))),
            "log.flush.offset.checkpoint.interval.ms": str(pick((100, 60_000))),
            "replica.high.watermark.checkpoint.interval.ms": str(pick((70, 5_000))),
            "offsets.topic.num.partitions": str(pick((1, 3))),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": str(pick((1, 2))),
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
            "group.initial.rebalance.delay.ms": str(pick((0, 100))),
            "group.min.session.timeout.ms": "50",
            "group.consumer.min.session.timeout.ms": "50",
            "group.consumer.session.timeout.ms": str(self._session_ms),
            "group.consumer.min.heartbeat.interval.ms": "1",
            "group.consumer.heartbeat.interval.ms": "50",
            "group.consumer.assignment.interval.ms": str(pick((0, 100))),
        }

    # -- who takes part

    def _make_roles(self) -> list[Role]:
        chance = self.chance
        roles = [self._feeder(f"feeder-{each}", [chance.randint(3, 8)]) for each in range(2)]
        kind = chance.choice(("alone", "classic", "consumer", "mixed"))
        for number in range(len(PLACES[ORDERS])):
            roles.append(self._worker(f"worker-{number}", number, kind))
        kind = chance.choice(("classic", "consumer", "mixed"))
        for number in range(chance.choice((1, 2, 3))):
            name = f"audit-{number}"
            roles.append(self._committer(name, AUDIT, self._joins(kind, AUDIT, name)))
        roles.append(self._committer("loner", LONERS, None))
        return roles

    def _feeder(self, name: str, quota: list[int]) -> Role:
        return Role(lambda life: Feeder(self.shared, f"{name}/{life}", name, quota))

    def _worker(self, name: str, number: int, kind: str) -> Role:
        if kind == "alone":
            places = [PLACES[ORDERS][number]]
            return Role(lambda life: Worker(self.shared, f"{name}/{life}", name, None, places))
        join = self._joins(kind, BILLING, name)
        return Role(lambda life: Worker(self.shared, f"{name}/{life}", name, join))

    def _committer(self, name: str, group: str, join: Join | None) -> Role:
        return Role(lambda life: Committer(self.shared, f"{name}/{life}", group, join))

    def _joins(self, kind: str, group: str, name: str) -> Join:
        """How the lives of one member join; static ones under an instance id."""
        chance, owners = self.chance, self.shared.owners
        instance_id = name if chance.random() < 0.3 else None
        rebalance_ms = chance.choice((150, 500))

        def join(client: ScriptedClient, topics: Mapping[str, TopicFacts]) -> SimMembership:
            protocol = chance.choice(("classic", "consumer")) if kind == "mixed" else kind
            if protocol == "classic":
                return ClassicMembership(
                    client,
                    group,
                    topics,
                    owners,
                    session_ms=self._session_ms,
                    rebalance_ms=rebalance_ms,
                    instance_id=instance_id,
                )
            return ConsumerMembership(
                client, group, topics, owners, rebalance_ms=rebalance_ms, instance_id=instance_id
            )

        return join

    # -- the node's lives

    @property
    def broker(self) -> Broker:
        assert self.node.broker is not None, "a node that serves has a broker"
        return self.node.broker

    def _coordinator_epoch(self, transactional_id: str) -> int:
        """Of the one who writes the markers for this id."""
        index = self.broker.coordinators.partition_of(TRANSACTION_STATE_TOPIC, transactional_id)
        partitions = self.broker.replicas.by_name.get(TRANSACTION_STATE_TOPIC, {})
        return 0 if index not in partitions else partitions[index].leader.epoch

    def start(self) -> None:
        self.world = SimWorld(
            self.simulation,
            "node",
            disks=self.disks,
            skew_ms=self.chance.choice((0, 0, -5_000, 60_000)),
            read_cost_ms=self.chance.choice((0.0, 0.0, 0.05)),
        )
        if self.chance.random() < 0.3:
            self.world.disk(ROOT).cold = True
        self.ready = self.stopped = False
        self.patience.node_started()
        self.node = PenstockNode(self.world, BrokerConfig.of(self._settings))
        self.node.start(self._is_ready, self._is_stopped)

    def _is_ready(self) -> None:
        self.ready = True

    def _is_stopped(self) -> None:
        self.stopped = True
        assert self.node.failure is None, self.node.failure

    def end(self) -> None:
        """A death at this very moment, or now and then a clean stop."""
        self.world.disk(ROOT).fail_write(NEVER)
        if self.chance.random() < 0.2:
            self.simulation.note("stop\n")
            self.simulation.run_until(lambda: self.ready, STOP_MS_MAX)
            self.node.stop()
            self.simulation.run_until(lambda: self.stopped, STOP_MS_MAX)
            self.world.kill()
            # A clean stop leaves nothing to a later loss of power, whatever the durability.
            self.disks = self.world.disks_after_power_loss()
            return
        if self.ready and self.chance.random() < 0.7:
            self._wait_for_a_bad_moment()
        self.simulation.note("die\n")
        self.deaths += 1
        self.world.kill()
        if self.power and self.chance.random() < 0.8:
            self.disks = self.world.disks_after_power_loss()
        else:
            self.disks = self.world.disks_after_kill()

    def _wait_for_a_bad_moment(self) -> None:
        """Somebody was just answered, and something is written that is not synced."""
        asked = self.shared.asked
        for _ in range(STEPS_MAX):
            self.simulation.step()
            if judge_durability(self.broker) and self.shared.asked > asked:
                return
            asked = self.shared.asked

    def live(self) -> None:
        until = self.simulation.now_ms + self.chance.uniform(*LIFE_MS)
        while self.simulation.now_ms < until:
            self.simulation.run_for(self.chance.uniform(*STEP_MS))
            self._look()
            self._trouble()

    def _look(self) -> None:
        self.shared.courier.look()
        if self.ready:
            self.patience.look(self.broker, self.simulation.now_ms)
            judge_durability(self.broker)
            if self.chance.random() < 0.3:
                judge_stability(self.broker)

    def _trouble(self) -> None:
        """Connections break, a disk is full for a moment, clients do not read, die, or are taken
        for dead too early."""
        if self.chance.random() < 0.15:
            self.simulation.network.break_one()
        if self.chance.random() < 0.1:
            role = self.chance.choice(self.roles)
            role.current.stop_reading(self.chance.uniform(1.0, 300.0))
        if self.ready and self.chance.random() < 0.2:
            self.full_disks += 1
            self.world.disk(ROOT).fail_write(
                self.chance.randint(0, WRITES_MAX), full=True, within=self.chance.choice(WRITTEN)
            )
        if self.chance.random() < 0.12:
            self._begin_anew(self.chance.choice(self.roles))

    def _begin_anew(self, role: Role) -> None:
        """Most die before another takes their place; that may be much later."""
        client = role.current
        self.simulation.note(f"begin anew {client.name}\n")
        if client.finished:
            role.begin()
            return
        match self.chance.choices(("dies", "retires", "is taken for dead"), (70, 15, 15))[0]:
            case "dies":
                self.shared.courier.died(client, client.die())
                if self.chance.random() < 0.3:
                    return
            case "retires":
                client.retiring = True
                return  # nothing guards the commits of one without a group from its successor's
            case _ if not isinstance(client, Transactor):
                return  # two of them would be one too many for good
        role.begin()

    # -- the whole story

    def run(self) -> None:
        self.start()
        self.admin.start()
        for role in self.roles:
            role.begin()
        for client in (self.watcher, *self.readers):
            client.start()
        for _ in range(self.chance.randint(2, 6)):
            self.live()
            self.end()
            self.start()
            if self.chance.random() < 0.8:  # else it may die again before it is ready
                self.simulation.run_until(lambda: self.ready, STOP_MS_MAX)
        self.live()
        self._finish()
        self.report = self._judge()

    def _finish(self) -> None:
        """No more trouble: all work is done, everybody has a share, and nothing is left open."""
        shared = self.shared
        shared.calm = True
        self.world.disk(ROOT).fail_write(NEVER)
        shared.courier.hush()
        self.simulation.run_until(lambda: self.ready, STOP_MS_MAX)
        self.simulation.run_until(self._have_retired, FINISH_MS_MAX)
        for role in self.roles:
            # What a feeder has left open when it died has to end without it.
            if role.current.finished and not isinstance(role.current, Feeder):
                role.begin()
        self._calm_down()
        self._judge_groups()
        self._let_finish([LastReader(shared, f"last-{each.value}", each) for each in Isolation])
        shared.over = True
        clients = [*self._everybody(), self.watcher, *self.readers]
        self.simulation.run_until(lambda: all(each.finished for each in clients), FINISH_MS_MAX)
        self.admin.stop()
        if self.admin.link is not None:
            self.admin.link.peer.close()
        listener = self.broker.listeners[0]
        self.simulation.run_until(lambda: not listener.connections, STOP_MS_MAX)
        self.simulation.run_for(1_000)
        judge_stability(self.broker)
        judge_leftovers(self.broker)

    def _have_retired(self) -> bool:
        return all(each.finished for each in self._everybody() if each.retiring)

    def _everybody(self) -> list[Actor]:
        return [client for role in self.roles for client in role.clients]

    def _members(self, group: str) -> list[Worker | Committer]:
        """Those who live."""
        return [
            each
            for each in self._everybody()
            if isinstance(each, Worker | Committer) and each.group == group and not each.finished
        ]

    def _calm_down(self) -> None:
        """Until the feeders are done, every group is at the end of what it reads, and nothing is
        open; looking now and then, as nothing happens in between that would not last."""
        until = self.simulation.now_ms + FINISH_MS_MAX
        while unrest := self._unrest():
            assert self.simulation.now_ms < until, f"no calm: {unrest}"
            self.simulation.run_for(50.0)
            self.patience.look(self.broker, self.simulation.now_ms)

    def _unrest(self) -> list[str]:
        """What is still under way."""
        found = [
            f"{each.name} is at work"
            for role in self.roles
            if isinstance(each := role.current, Feeder) and not each.finished
        ]
        found += [f"{each.transactional_id} is open" for each in open_transactions(self.broker)]
        ends = {
            place: self.broker.find(*place).log.end_offset
            for places in PLACES.values()
            for place in places
        }
        for group, topic in READS.items():
            # Who has found nothing to read commits nothing: that is the beginning.
            told = [self.watcher.progress.get((group, each), -1) for each in PLACES[topic]]
            progress = [max(0, each) for each in told]
            if progress != [ends[each] for each in PLACES[topic]]:
                found.append(f"{group} is at {progress} of {topic}")
            shares = [each.membership for each in self._members(group) if each.membership]
            held = sorted(place for share in shares for place in share.partitions)
            if shares and held != PLACES[topic]:
                found.append(f"{group} has shared out {held}")
        for reader in self.readers:
            if reader.positions != ends:
                found.append(f"{reader.name} is at {reader.positions}")
        return found

    def _judge_groups(self) -> None:
        """Every partition has its one owner in each group, as they and the node see it."""

        def inspector(group: str) -> Inspector:
            return Inspector(self.shared, group, lambda: self._members(group))

        inspectors = [inspector(group) for group in READS]
        try:
            self._let_finish(inspectors)
        except Stuck as stuck:
            stuck.add_note(str([each.problem for each in inspectors]))
            raise
        self._calm_down()

    def _let_finish(self, clients: Sequence[ScriptedClient]) -> None:
        for client in clients:
            client.start()
        self.simulation.run_until(lambda: all(each.finished for each in clients), SETTLE_MS_MAX)

    def _judge(self) -> Report:
        shared = self.shared
        for found in (shared.violations, shared.grants.violations, shared.owners.violations):
            assert not found, "\n".join(found)
        pipeline = Pipeline(BILLING, (ORDERS,), (BILLS,))
        report = check(shared.recorder.history(), pipelines=[pipeline])
        report.require_clean()
        return report
