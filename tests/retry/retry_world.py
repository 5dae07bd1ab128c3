"""A source partition, its retry topics, and a process that handles records and crashes: by seed.

Committed records are a value of the world. A crash loses the state of the process, except for a
guard in memory: then only its clients crash, and a new session begins. The process consists of
penstock.retry's PartitionState, DelayQueue, PendingKeys, IdempotencyKeys and key lanes, without its
clients. Topics reject some results.
"""

import random
from collections import deque
from dataclasses import dataclass, field

from penstock.client.records import Headers, Record
from penstock.model import TopicPartition
from penstock.retry.delay_queue import DelayQueue
from penstock.retry.idempotency_keys import IdempotencyKeys
from penstock.retry.ladder import Ladder, Names
from penstock.retry.partition_state import (
    AdmittedRecord,
    NextAction,
    PartitionState,
    Portion,
    RecordOutcome,
    RetryTopics,
    Write,
)
from penstock.retry.pending_keys import PendingKeys
from penstock.retry.retry_headers import read_trail

Raw = Record[bytes, bytes]
NAMES = Names("orders", "billing")
STEPS = RetryTopics(NAMES, Ladder.of(("5s", "1m")))
WINDOW_MS = 10**9
OUT = "bills"
REFUSED = b"refused"


class Crash(Exception):
    """The process ends here."""


@dataclass
class World:
    """What the cluster has committed."""

    topics: dict[str, list[Raw]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    now_ms: int = 0

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> None:
        log = self.topics.setdefault(topic, [])
        log.append(Record(topic, 0, len(log), key, value, headers, self.now_ms))

    def commit(self, portion: Portion) -> None:
        """All of it, or nothing: one transaction."""
        for write in portion.writes:
            assert write.partition == 0 or write.topic == OUT
            assert write.topic != OUT or write.value != REFUSED
            self.append(write.topic, write.key, write.value, write.headers)
        for topic_partition, offset in portion.offsets.items():
            assert offset > self.offsets.get(topic_partition.topic, 0), "offsets only move on"
            self.offsets[topic_partition.topic] = offset

    @property
    def read_topics(self) -> list[str]:
        return [NAMES.topic, *STEPS.topics]

    @property
    def is_done(self) -> bool:
        return all(
            self.offsets.get(each, 0) == len(self.topics.get(each, [])) for each in self.read_topics
        )


@dataclass
class History:
    """What handlers saw and what became of it; kept by the test, so crashes do not touch it."""

    tried: list[int] = field(default_factory=list)
    state_changed: set[int] = field(default_factory=set)  # succeeded or dead, committed or not
    committed: set[int] = field(default_factory=set)


class Process:
    """One life of a process, from restored state to a crash or the end."""

    def __init__(
        self,
        world: World,
        history: History,
        dice: random.Random,
        *,
        ordered: bool,
        guarded: bool,
        kept: IdempotencyKeys | None = None,
    ) -> None:
        self.world, self.history, self.dice = world, history, dice
        pending, seen = PendingKeys(), IdempotencyKeys(WINDOW_MS) if guarded else kept
        pending.restore((each.key, each.value) for each in world.topics.get(NAMES.pending, []))
        if seen is not None and guarded:
            for each in world.topics.get(NAMES.seen, []):
                assert each.key is not None and each.value is not None
                seen.add(each.key, int(each.value), world.now_ms)
        self.partition_state = PartitionState(STEPS, 0, ordered, pending, seen, guarded)
        self.delay_queue = DelayQueue()
        self.position = dict(world.offsets)
        self.lanes: dict[bytes | None, deque[AdmittedRecord]] = {}
        self.running: dict[bytes | None, AdmittedRecord] = {}
        self.keys = {each.offset: each.key for each in world.topics[NAMES.topic]}
        self.ordered = ordered
        source = world.topics[NAMES.topic]
        self.garbage = {each.offset for each in source if each.value == b"garbage"}

    # -- what may happen next

    def step(self) -> None:
        choices = [self.read, self.begin, self.end, self.commit, self.pass_time]
        self.dice.choice(choices)()

    def read(self) -> None:
        topic = self.dice.choice(self.world.read_topics)
        log, at = self.world.topics.get(topic, []), self.position.get(topic, 0)
        if at >= len(log) or self.delay_queue.holds(TopicPartition(topic, 0)):
            return
        self.position[topic] = at + 1
        record = log[at]
        due_ms = 0 if topic == NAMES.topic else read_trail(record.headers).due_ms or 0
        if due_ms > self.world.now_ms:
            self.delay_queue.put(record, due_ms)
        else:
            self.admit(record)

    def admit(self, record: Raw) -> None:
        self.lanes.setdefault(record.key, deque()).append(self.partition_state.admit(record))

    def pass_time(self) -> None:
        self.world.now_ms += self.dice.choice((1, 1_000, 5_000, 60_000))
        for record in self.delay_queue.take_due(self.world.now_ms):
            self.admit(record)

    def begin(self) -> None:
        idle = [key for key, lane in self.lanes.items() if lane and key not in self.running]
        if not idle:
            return
        key = self.dice.choice(idle)
        entry = self.lanes[key].popleft()
        offset = entry.trail.offset
        identity = b"event-%d" % offset if self.partition_state.seen is not None else None
        rejection = ValueError("unreadable") if entry.record.value == b"garbage" else None
        verdict = self.partition_state.begin(entry, self.world.now_ms, identity, rejection)
        if verdict is NextAction.DEAD:
            self.history.state_changed.add(offset)
        if verdict is not NextAction.TRY:
            return
        assert offset not in self.history.committed, "what is settled for good is not tried again"
        if self.ordered and key is not None:
            for earlier in range(offset):
                if self.keys[earlier] == key:
                    assert earlier in self.history.state_changed, (key, earlier, offset)
        self.history.tried.append(offset)
        self.running[key] = entry

    def end(self) -> None:
        if not self.running:
            return
        key = self.dice.choice(list(self.running))
        entry = self.running.pop(key)
        offset = entry.trail.offset
        if self.dice.random() < 0.6:
            value = REFUSED if self.dice.random() < 0.1 else b"%d" % offset
            self.partition_state.succeeded(entry, self.world.now_ms, [Write(OUT, key, value)])
        else:
            self.partition_state.failed(entry, RuntimeError("no luck"), self.world.now_ms)
        if entry.outcome in (RecordOutcome.SUCCEEDED, RecordOutcome.DEAD):
            self.history.state_changed.add(offset)

    def commit(self) -> None:
        portion = self.without_refused(self.partition_state.portion())
        if not portion:
            return
        crash = self.dice.random()
        if crash < 0.03:
            raise Crash  # before anything
        self.world.commit(portion)
        for entry in portion.entries:
            waits = any(each.topic in STEPS.topics for each in entry.writes)
            if not waits:
                self.history.committed.add(entry.trail.offset)
        self.check_prefixes()
        if crash < 0.06:
            raise Crash  # the cluster knows, the process does not
        self.partition_state.committed(portion)

    def without_refused(self, portion: Portion) -> Portion:
        """What stands before one that is refused; one that stands in front is decided anew."""
        entries = portion.entries
        bad = [
            at for at, each in enumerate(entries) if any(w.value == REFUSED for w in each.writes)
        ]
        if not bad:
            return portion
        if bad[0]:
            return Portion(entries[: bad[0]])
        before = [
            each
            for each in self.partition_state._entries
            if each.outcome is RecordOutcome.SUCCEEDED
        ]
        self.partition_state.rejected(entries[0], ValueError("rejected"), self.world.now_ms)
        for entry in before:
            if entry.outcome not in (RecordOutcome.SUCCEEDED, RecordOutcome.DEAD):
                self.history.state_changed.discard(entry.trail.offset)
        return Portion(())

    def check_prefixes(self) -> None:
        """Of each key, what is settled for good has nothing unsettled before it; but what cannot be
        read is buried at once."""
        if not self.ordered:
            return
        for offset in self.history.committed - self.garbage:
            key = self.keys[offset]
            for earlier in range(offset if key is not None else 0):
                if self.keys[earlier] == key:
                    assert earlier in self.history.committed, (key, earlier, offset)


def story(
    seed: int, *, ordered: bool, guarded: bool, in_memory: bool = False
) -> tuple[World, History]:
    """Records of a few keys, tried by processes that crash, until nothing is left to do."""
    dice = random.Random(seed)
    kept = IdempotencyKeys(WINDOW_MS) if in_memory else None
    world, history = World(), History()
    for number in range(dice.randrange(1, 25)):
        key = dice.choice((b"a", b"b", b"c", None))
        value = b"garbage" if dice.random() < 0.05 else b"%d" % number
        world.append(NAMES.topic, key, value)
    process = Process(world, history, dice, ordered=ordered, guarded=guarded, kept=kept)
    for _ in range(200_000):
        if world.is_done:
            return world, history
        try:
            if dice.random() < 0.002:
                raise Crash
            process.step()
        except Crash:
            process = Process(world, history, dice, ordered=ordered, guarded=guarded, kept=kept)
    raise AssertionError(f"seed {seed}: it does not come to an end")
