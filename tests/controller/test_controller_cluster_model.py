"""Random lives of several brokers against the promises of a controller.

Brokers register, send heartbeats, miss sessions, stop cleanly or are killed, and start again; the
active controller changes. A model knows which replicas hold all committed records.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from controller_bench import CLUSTER_ID, Bench, registration

from penstock.controller.broker_sessions import BrokerSessions
from penstock.controller.controller import Controller
from penstock.controller.elections import Electorate, change_partition
from penstock.controller.image import ELIGIBLE_LEADERS, NO_LEADER, RECOVERING, PartitionImage
from penstock.controller.live_facts import LiveFacts
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome
from penstock.errors import DuplicateBrokerRegistration, StaleBrokerEpoch

BROKERS = (1, 2, 3, 4)
TIMEOUT_MS = 900
MIN_ISR = 2


@dataclass
class Process:
    """One start of a broker."""

    broker_id: int
    incarnation_id: bytes
    epoch: int = -1
    paused: bool = False
    stopping: bool = False


class ClusterLife:
    def __init__(self, seed: int, *, without: str = "") -> None:
        self.dice = random.Random(seed)
        self.with_eligible = without != ELIGIBLE_LEADERS
        self.now = 0.0
        self.starts = 0
        self.sessions = BrokerSessions(TIMEOUT_MS)
        facts = LiveFacts(lambda each, epoch: self.sessions.has_session(each, epoch, self.now))
        self.settings = ControllerSettings(CLUSTER_ID, 1, min_insync_replicas=MIN_ISR)
        self.bench = Bench((), without=without, facts=facts, min_insync_replicas=MIN_ISR)
        self.facts = facts
        self.processes: dict[int, Process] = {}
        self.clean_epochs: dict[int, int] = {}
        self.complete: dict[tuple[str, int], set[int]] = {}
        self.before = self.bench.image
        self.fenced_by_time = self.last_known_elections = 0
        for broker_id in BROKERS:
            self.start(broker_id)
        self.beat_all()

    # Events

    def act(self) -> None:
        common = [self.beat_all, self.pass_time, self.join_in_sync_sets, self.create]
        rare = [self.kill, self.pause, self.resume, self.stop, self.restart, self.change_controller]
        self.dice.choice([*common, *common, *rare])()

    def pass_time(self) -> None:
        self.now += self.dice.choice([50, 200, 500])
        self.expire()

    def expire(self) -> None:
        while True:
            stale = self.sessions.stale(self.bench.image.brokers, self.now)
            if stale is None:
                break
            assert self.bench.expire(stale.broker_id, stale.broker_epoch)
            self.fenced_by_time += 1
            self.check()
        assert self.sessions.next_check_ms(self.now) > self.now

    def start(self, broker_id: int) -> None:
        """Start a process; while the session of an earlier one runs, the start has to wait."""
        self.starts += 1
        process = Process(broker_id, self.starts.to_bytes(16, "big"))
        known = self.bench.image.brokers.get(broker_id)
        previous = self.clean_epochs.get(broker_id, -1)
        request = registration(
            broker_id, incarnation_id=process.incarnation_id, previous_broker_epoch=previous
        )
        lives = (
            known is not None
            and self.clean_epochs.get(broker_id) != known.epoch
            and self.sessions.has_session(broker_id, known.epoch, self.now)
        )
        reply = self.bench.ask(request, 4)
        if lives:
            assert reply.error_code == DuplicateBrokerRegistration.code
            return
        assert reply.error_code == 0
        assert known is None or reply.broker_epoch > known.epoch
        clean = known is not None and previous == known.epoch
        self.clean_epochs.pop(broker_id, None)
        process.epoch = reply.broker_epoch
        self.processes[broker_id] = process
        if not clean:
            for replicas in self.complete.values():
                replicas.discard(broker_id)
        for _, partition in self.bench.image.partitions():
            last_named = not self.with_eligible and partition.isr == (broker_id,)
            assert broker_id not in partition.isr or last_named
            assert clean or broker_id not in partition.eligible_leaders
        self.check()

    def restart(self) -> None:
        broker_id = self.dice.choice(BROKERS)
        if broker_id not in self.processes:
            self.start(broker_id)

    def kill(self) -> None:
        self.processes.pop(self.dice.choice(BROKERS), None)

    def pause(self) -> None:
        process = self.processes.get(self.dice.choice(BROKERS))
        if process is not None:
            process.paused = True

    def resume(self) -> None:
        for process in self.processes.values():
            process.paused = False

    def stop(self) -> None:
        process = self.processes.get(self.dice.choice(BROKERS))
        if process is not None:
            process.stopping = True

    def beat_all(self) -> None:
        for process in list(self.processes.values()):
            if not process.paused:
                self.beat(process)

    def beat(self, process: Process) -> None:
        self.sessions.contact(process.broker_id, process.epoch, self.now)
        reply = self.bench.beat(process.broker_id, process.epoch, want_shut_down=process.stopping)
        assert reply.error_code in (0, StaleBrokerEpoch.code)
        newest = self.bench.image.brokers[process.broker_id].epoch == process.epoch
        assert newest == (reply.error_code == 0)
        assert process.stopping or not reply.should_shut_down
        if reply.should_shut_down:
            assert reply.is_fenced
            del self.processes[process.broker_id]
            self.clean_epochs[process.broker_id] = process.epoch
        self.check()

    def change_controller(self) -> None:
        successor = Controller(
            self.settings, self.bench.rules, (), lambda _: None, self.bench.image, self.facts
        )
        successor.follow()
        self.bench.controller = successor
        self.bench.apply(successor.loaded(0))
        self.sessions.begin(self.bench.image.brokers.values(), self.now)

    def create(self) -> None:
        name = f"topic{self.dice.randint(1, 6)}"
        known = name in self.bench.image.topics
        result = self.bench.create(name, self.dice.randint(1, 3), self.dice.randint(1, 3))
        if not known and result.error_code == 0:
            for index, partition in self.bench.image.topics[name].partitions.items():
                self.complete[name, index] = set(partition.isr)
        self.check()

    def join_in_sync_sets(self) -> None:
        """Let replicas catch up, as their leaders would tell with AlterPartition."""
        image = self.bench.image
        records: list[Any] = []
        for topic, partition in image.partitions():
            joining = [
                each
                for each in partition.replicas
                if each not in partition.isr and image.brokers[each].active
            ]
            if partition.leader != NO_LEADER and joining and self.dice.random() < 0.7:
                isr = (*partition.isr, self.dice.choice(joining))
                electorate = Electorate(image, self.settings)
                records.append(
                    change_partition(electorate, topic, partition, replace(partition, isr=isr))
                )
        self.bench.apply(Outcome([each for each in records if each is not None]))
        self.check()

    # Promises

    def check(self) -> None:
        image = self.bench.image
        for topic, partition in image.partitions():
            old = self.before.topics.get(topic.name)
            self.check_partition(topic.name, partition)
            if old is not None:
                self.check_change(topic.name, old.partitions[partition.partition_id], partition)
            if len(partition.isr) >= min(MIN_ISR, len(partition.replicas)):
                if partition.leader != NO_LEADER:
                    self.complete[topic.name, partition.partition_id] = set(partition.isr)
        assert {broker.broker_id for broker in image.brokers.values()} == set(image.brokers)
        self.before = image

    def check_partition(self, name: str, partition: PartitionImage) -> None:
        isr, eligible = set(partition.isr), set(partition.eligible_leaders)
        assert isr <= set(partition.replicas) >= eligible, name
        assert not isr & eligible
        if partition.leader != NO_LEADER:
            assert self.bench.image.brokers[partition.leader].active
            assert partition.leader in isr
            assert partition.last_known_leaders == ()
        elif self.with_eligible:
            assert not isr

    def check_change(self, name: str, old: PartitionImage, new: PartitionImage) -> None:
        assert new.leader_epoch >= old.leader_epoch
        assert new.partition_epoch >= old.partition_epoch
        assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
        if new.leader in (old.leader, NO_LEADER) or not self.with_eligible:
            return
        complete = self.complete[name, new.partition_id]
        if new.leader in (*old.isr, *old.eligible_leaders):
            assert new.leader in complete, "a clean election names a complete replica"
            return
        self.last_known_elections += 1
        assert not complete, "an unclean election is for partitions without a complete replica"
        assert (old.last_known_leaders, new.recovery_state) == ((new.leader,), RECOVERING)
        complete.add(new.leader)  # what the last leader has counts from now on

    def heal(self) -> None:
        self.resume()
        for _ in range(4):
            self.beat_all()
            self.now += TIMEOUT_MS + 1
            for process in self.processes.values():
                self.sessions.contact(process.broker_id, process.epoch, self.now)
            self.expire()
            for broker_id in BROKERS:
                if broker_id not in self.processes:
                    self.start(broker_id)
        self.beat_all()
        assert all(broker.active for broker in self.bench.image.brokers.values())
        assert all(each.leader != NO_LEADER for _, each in self.bench.image.partitions())


@pytest.mark.parametrize("without", ["", ELIGIBLE_LEADERS], ids=["eligible leaders", "in-sync set"])
@pytest.mark.parametrize("seed", range(30))
def test_brokers_come_and_go_and_every_partition_is_led_in_the_end(seed: int, without: str) -> None:
    life = ClusterLife(seed, without=without)
    for _ in range(120):
        life.act()
    life.heal()


def test_the_seeds_reach_expired_sessions_and_unclean_elections() -> None:
    lives = [ClusterLife(seed) for seed in range(10)]
    for life in lives:
        for _ in range(120):
            life.act()
    assert sum(life.fenced_by_time for life in lives) >= 10
    assert sum(life.last_known_elections for life in lives) >= 10
