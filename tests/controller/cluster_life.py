"""Random lives of several brokers under one controller, and its promises to them.

Brokers register, send heartbeats, miss sessions, stop cleanly or are killed, and start again; the
active controller changes. Leaders change their in-sync sets, and some requests arrive late.
Directories are lost, and some are back after a start. A model knows which replicas hold all
committed records.
"""

import random
from dataclasses import dataclass, replace

from cluster_promises import MIN_ISR, ClusterPromises, expected_rejection, is_lost
from controller_bench import CLUSTER_ID, Bench, registration
from replica_requests import assignment_request, change_request

from penstock.controller.broker_sessions import BrokerSessions
from penstock.controller.controller import Controller
from penstock.controller.image import (
    ELIGIBLE_LEADERS,
    LOST_DIRECTORY,
    NO_LEADER,
    Image,
    PartitionImage,
)
from penstock.controller.live_facts import LiveFacts
from penstock.controller.settings import ControllerSettings
from penstock.errors import DuplicateBrokerRegistration, IneligibleReplica, StaleBrokerEpoch
from penstock.wire.messages.k56_alter_partition import AlterPartitionRequest

BROKERS = (1, 2, 3, 4)
TIMEOUT_MS = 900


@dataclass
class Process:
    """One start of a broker."""

    broker_id: int
    incarnation_id: bytes
    epoch: int = -1
    paused: bool = False
    stopping: bool = False


def asked_partition(image: Image, request: AlterPartitionRequest) -> PartitionImage:
    [asked_topic] = request.topics
    [asked] = asked_topic.partitions
    topic = image.topic(asked_topic.topic_id)
    assert topic is not None, "the request names a topic of the image"
    return topic.partitions[asked.partition_index]


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
        self.promises = ClusterPromises(self.bench, with_eligible=self.with_eligible)
        self.counted = self.promises.counted
        self.late: list[AlterPartitionRequest] = []
        self.former_epochs: dict[int, int] = {}
        self.is_healing = False  # every lost directory is there again
        for broker_id in BROKERS:
            self.start(broker_id)
        self.beat_all()

    # Events

    def act(self) -> None:
        common = [self.beat_all, self.pass_time, self.change_in_sync_sets, self.create]
        rare = [self.kill, self.pause, self.resume, self.stop, self.restart, self.change_controller]
        odd = [self.deliver_late, self.lose_replica]
        self.dice.choice([*common, *common, *rare, *odd])()

    def pass_time(self) -> None:
        self.now += self.dice.choice([50, 200, 500])
        self.expire()

    def expire(self) -> None:
        while True:
            stale = self.sessions.stale(self.bench.image.brokers, self.now)
            if stale is None:
                break
            assert self.bench.expire(stale.broker_id, stale.broker_epoch)
            self.counted["fenced by time"] += 1
            self.promises.check()
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
        if known is not None:
            self.former_epochs[broker_id] = known.epoch
        process.epoch = reply.broker_epoch
        self.processes[broker_id] = process
        if not clean:
            self.promises.killed(broker_id)
        for _, partition in self.bench.image.partitions():
            last_named = not self.with_eligible and partition.isr == (broker_id,)
            assert broker_id not in partition.isr or last_named
            assert clean or broker_id not in partition.eligible_leaders
        self.promises.check()
        self.find_lost_replicas(broker_id)

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
        self.promises.check()

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
            self.promises.created(name)
        self.promises.check()

    # In-sync sets and directories

    def change_in_sync_sets(self) -> None:
        """Let leaders tell which replicas have caught up, and which have fallen behind."""
        for topic, partition in self.bench.image.partitions():
            leader = self.processes.get(partition.leader)
            if leader is None or leader.paused or self.dice.random() < 0.3:
                continue
            kept = [
                each
                for each in partition.replicas
                if each == partition.leader
                or (self.dice.random() < 0.8 and not is_lost(partition, each))
            ]
            if self.dice.random() < 0.05:
                kept.append(self.dice.choice(BROKERS))  # a replica twice, or no replica at all
            if self.dice.random() < 0.05:
                kept.remove(partition.leader)
            epochs = dict(self.former_epochs) if self.dice.random() < 0.1 else None
            asker = self.dice.choice(BROKERS) if self.dice.random() < 0.05 else None
            request = change_request(
                self.bench,
                kept,
                index=partition.partition_id,
                name=topic.name,
                leader=asker,
                epochs=epochs,
            )
            if self.dice.random() < 0.3:
                self.late.append(request)
            else:
                self.deliver(request)

    def deliver_late(self) -> None:
        self.dice.shuffle(self.late)
        for _ in range(len(self.late) // 2):
            self.deliver(self.late.pop())

    def deliver(self, request: AlterPartitionRequest) -> None:
        before = self.bench.image
        rejection = expected_rejection(before, request)
        reply = self.bench.ask(request, 3)
        codes = [each.error_code for topic in reply.topics for each in topic.partitions]
        [code] = codes or [reply.error_code]
        assert code == (rejection.code if rejection else 0)
        if rejection is IneligibleReplica:
            # Earlier attempts must not be accepted later.
            assert asked_partition(self.bench.image, request) == replace(
                asked_partition(before, request),
                partition_epoch=asked_partition(before, request).partition_epoch + 1,
            )
        else:
            assert not rejection or self.bench.image is before
        self.counted[rejection.__name__ if rejection else "accepted"] += 1
        self.promises.check()

    def lose_replica(self) -> None:
        """Let the directory of a replica fail: its broker reports the replica as lost."""
        held = [
            (topic.name, partition.partition_id, each)
            for topic, partition in self.bench.image.partitions()
            for each in partition.replicas
            if each in self.processes and not is_lost(partition, each)
        ]
        if held:
            name, index, broker_id = self.dice.choice(held)
            self.assign(name, index, broker_id, LOST_DIRECTORY)
            partition = self.bench.image.topics[name].partitions[index]
            assert broker_id != partition.leader
            self.counted["lost"] += 1

    def find_lost_replicas(self, broker_id: int) -> None:
        """Let directories be there again when their broker starts: it reports them before its first
        heartbeat."""
        directory = self.bench.image.brokers[broker_id].directories[0]
        for topic, partition in list(self.bench.image.partitions()):
            is_back = self.is_healing or self.dice.random() < 0.7
            if is_lost(partition, broker_id) and is_back:
                self.assign(topic.name, partition.partition_id, broker_id, directory)

    def assign(self, name: str, index: int, broker_id: int, directory: bytes) -> None:
        reply = self.bench.ask(
            assignment_request(self.bench, broker_id, directory, index, name=name)
        )
        [answer] = reply.directories[0].topics[0].partitions
        assert (reply.error_code, answer.error_code) == (0, 0)
        self.promises.check()

    def heal(self) -> None:
        """Let every broker live, those with lost replicas after another start."""
        self.resume()
        for _, partition in self.bench.image.partitions():
            for each in partition.replicas:
                if is_lost(partition, each):
                    self.processes.pop(each, None)
        self.is_healing = True
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
