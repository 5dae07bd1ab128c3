"""A small world around one transaction coordinator: clients, leaders, a network, and chance.

The coordinator is the real machine on the real runtime, over a log that commits late and loses
its uncommitted end in a crash. Partitions are plain lists of (producer, epoch, data or marker)
under the rules of a leader. What an old client's protocol cannot bear (a request or a marker that
arrives long after its repetition) happens to clients of transactions v2 only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from penstock.coordinator.transactions.events import (
    AddPartitions,
    MarkersWritten,
    NeedsProducerId,
    ProducerTakenOver,
    VerifyPartitions,
    WriteMarkers,
)
from penstock.coordinator.transactions.machine import TransactionCoordinator
from penstock.coordinator.transactions.state import (
    CLIENT_EPOCH_MAX,
    TransactionMetadata,
    TxnProducerIdentity,
)
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from penstock.machine.protocols import LogFollower
from penstock.machine.runtime import Runtime
from penstock.model import TopicPartition

SETTINGS = TransactionSettings(abort_interval_ms=500)
TIMEOUT_MS = 2_000
PLACES = (
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("__consumer_offsets", 3),
)

NAMES = ("one", "two", "three")

Token = tuple[int, int]  # whose transaction: the client, and its how-manieth
Reply = Callable[[Any], None]


class SimTimer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class SimTime:
    """Clock and timers of the coordinator."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self._waiting: list[tuple[float, int, SimTimer]] = []
        self._count = 0

    def wall_ms(self) -> int:
        return self.now

    def mono_ms(self) -> float:
        return float(self.now)

    def at(self, mono_ms: float, call: Callable[[], None]) -> SimTimer:
        self._count += 1
        timer = SimTimer(call)
        heappush(self._waiting, (mono_ms, self._count, timer))
        return timer

    def soon(self, call: Callable[[], None]) -> None:
        self.at(self.now, call)

    def after_turn(self, call: Callable[[], None]) -> None:
        self.soon(call)

    def advance(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while self._waiting and self._waiting[0][0] <= until:
            due, _, timer = heappop(self._waiting)
            self.now = max(self.now, int(due))
            if timer.call is not None:
                timer.call()
        self.now = until


class Stored(NamedTuple):
    records: Sequence[Any]
    end_offset: int
    epoch: int = 0
    timestamp_ms: int = 0


class SimLog:
    """What the coordinator wrote; committed when chance says so."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.committed_offset = 0
        self._follower: LogFollower | None = None

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def append(self, records: Sequence[Any]) -> Stored:
        self.batches.append(Stored(tuple(records), self.end_offset + len(records)))
        return self.batches[-1]

    def read(self) -> "SimReader":
        return SimReader(list(self.batches))

    def follow(self, follower: LogFollower) -> None:
        self._follower = follower

    def commit(self) -> None:
        self.committed_offset = self.end_offset
        assert self._follower is not None
        self._follower.committed(self.committed_offset)

    def crash(self, chance: Random) -> None:
        safe = sum(batch.end_offset <= self.committed_offset for batch in self.batches)
        self.batches = self.batches[: chance.randint(safe, len(self.batches))]
        self.committed_offset = self.end_offset


class SimReader:
    def __init__(self, batches: list[Stored]) -> None:
        self._batches = batches

    def next_slice(self) -> list[Stored]:
        batches, self._batches = self._batches, []
        return batches


class Entry(NamedTuple):
    """One line of a partition: data of a token, or a marker."""

    producer_id: int
    epoch: int
    token: Token | None
    committed: bool | None = None


@dataclass
class ProducerAt:
    """What a leader knows of a producer."""

    epoch: int = -1
    sequence: int = -1
    coordinator_epoch: int = -1
    open_at: int | None = None
    vouched: int = -1  # the epoch that the coordinator vouches for


@dataclass
class Write:
    """A batch on its way."""

    name: str
    producer_id: int
    epoch: int
    sequence: int
    token: Token
    v2: bool
    reply: Reply


@dataclass
class Asked:
    """Writes that wait for the coordinator."""

    writes: list[Write] = field(default_factory=list)
    ended: bool = False
    again: bool = False  # the answer that is on its way does not count any more


class Place:
    """A partition and its leader."""

    def __init__(self, world: "World", place: TopicPartition) -> None:
        self.world = world
        self.place = place
        self.entries: list[Entry] = []
        self.producers: dict[int, ProducerAt] = {}
        self.asked: dict[tuple[int, int], Asked] = {}

    def write(self, write: Write) -> None:
        key = write.producer_id, write.epoch
        known = self.producers.get(write.producer_id)
        if key in self.asked:
            self.asked[key].writes.append(write)
        elif (
            known is not None
            and known.open_at is not None
            and known.epoch == known.vouched == write.epoch
        ):
            self._append(write)
        else:
            self.asked[key] = Asked([write])
            self._ask(write)

    def _ask(self, write: Write) -> None:
        key = write.producer_id, write.epoch
        event: AddPartitions | VerifyPartitions
        if write.v2:
            event = AddPartitions(write.name, *key, (self.place,), transactions_v2=True)
        else:
            event = VerifyPartitions(write.name, *key, (self.place,))

        def answered(result: Any) -> None:
            if isinstance(result, dict):
                result = result[self.place]
            asked = self.asked.get(key)
            if asked is not None and asked.again:
                asked.again = False
                self._ask(write)
                return
            self.asked.pop(key, None)
            if asked is not None and result is None:
                self.producers.setdefault(write.producer_id, ProducerAt()).vouched = write.epoch
            for each in asked.writes if asked else ():
                assert asked is not None
                if result is not None:
                    self.world.send(lambda each=each: each.reply(result))  # type: ignore[misc]
                elif asked.ended and not each.v2:
                    self.world.send(lambda each=each: each.reply(InvalidTxnState()))  # type: ignore[misc]
                else:
                    self._append(each)

        world = self.world
        world.send(lambda: world.ask(event, lambda result: world.send(lambda: answered(result))))

    def ask_again(self) -> None:
        """The coordinator that was asked is gone, and its answer with it."""
        for asked in list(self.asked.values()):
            self._ask(asked.writes[0])

    def take_over(self, effect: ProducerTakenOver) -> None:
        key = effect.producer_id, effect.producer_epoch
        known = self.producers.get(effect.producer_id)
        if known is not None and known.vouched == effect.producer_epoch:
            known.vouched = -1
        if key in self.asked:
            self.asked[key].again = True

    def _append(self, write: Write) -> None:
        answer = self._stored(write)
        self.world.send(lambda: write.reply(answer))

    def _stored(self, write: Write) -> KafkaError | None:
        known = self.producers.setdefault(write.producer_id, ProducerAt())
        if write.epoch < known.epoch:
            return InvalidProducerEpoch()
        if write.epoch == known.epoch and write.sequence <= known.sequence:
            return None  # again what is stored already
        if write.sequence != (known.sequence + 1 if write.epoch == known.epoch else 0):
            return OutOfOrderSequenceNumber()
        identity = write.producer_id, write.epoch
        assert identity not in self.world.taken_over, f"{identity} writes in what it has lost"
        known.epoch, known.sequence = write.epoch, write.sequence
        if known.open_at is None:
            known.open_at = len(self.entries)
        self.entries.append(Entry(write.producer_id, write.epoch, write.token))
        return None

    def mark(self, marker: WriteMarkers) -> KafkaError | None:
        known = self.producers.setdefault(marker.producer_id, ProducerAt())
        if marker.producer_epoch < known.epoch:
            return InvalidProducerEpoch()
        same = marker.producer_epoch == known.epoch
        if marker.transactions_v2 and same and known.open_at is not None:
            return InvalidProducerEpoch()
        if marker.coordinator_epoch < known.coordinator_epoch:
            return TransactionCoordinatorFenced()
        self._judge(marker, known)
        if not same:
            known.sequence = -1
        known.epoch = marker.producer_epoch
        known.coordinator_epoch = marker.coordinator_epoch
        known.open_at, known.vouched = None, -1
        for (producer_id, _), asked in self.asked.items():
            asked.ended = asked.ended or producer_id == marker.producer_id
        entry = Entry(marker.producer_id, marker.producer_epoch, None, marker.committed)
        self.entries.append(entry)
        return None

    def _judge(self, marker: WriteMarkers, known: ProducerAt) -> None:
        """A marker ends the transaction of its own epoch and no other."""
        if known.open_at is None:
            return
        expected = marker.producer_epoch - 1 if marker.transactions_v2 else marker.producer_epoch
        for entry in self.entries[known.open_at :]:
            if entry.producer_id == marker.producer_id and entry.token is not None:
                assert entry.epoch == expected, f"{marker} ends {entry} in {self.place}"
                self.world.ended(entry.token, marker.committed)

    @property
    def open(self) -> list[int]:
        """The producers with something open here."""
        return [each for each, known in self.producers.items() if known.open_at is not None]

    @property
    def stable(self) -> int:
        """What a reader of committed data may read up to."""
        firsts = [each.open_at for each in self.producers.values() if each.open_at is not None]
        return min(firsts, default=len(self.entries))


class Sender:
    """The markers of one transaction, as MarkerWriter sends them."""

    def __init__(self, world: "World", marker: WriteMarkers) -> None:
        self.world = world
        self.marker = marker
        self.left = dict.fromkeys(marker.partitions)
        self.term = world.term

    def send(self) -> None:
        if not self.left:
            self._report()
        for place in self.left:
            self._send_to(place)

    def _send_to(self, place: TopicPartition) -> None:
        world = self.world

        def arrive() -> None:
            answer = world.places[place].mark(self.marker)
            world.send(lambda: told(answer))

        def told(answer: KafkaError | None) -> None:
            if world.term == self.term and not isinstance(answer, TransactionCoordinatorFenced):
                self.left.pop(place, None)
                if not self.left:
                    self._report()

        world.send(arrive, repeatable=self.marker.transactions_v2)

    def _report(self) -> None:
        if self.world.term == self.term:
            name, producer_id, epoch = self.marker.transactional_id, *self._producer
            self.world.runtime.submit(MarkersWritten(name, producer_id, epoch))

    @property
    def _producer(self) -> tuple[int, int]:
        return self.marker.producer_id, self.marker.producer_epoch


class World:
    """Everything, and what must hold of it after every step."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.time = SimTime()
        self.log = SimLog()
        self._age()
        self.term = 0
        self.network: list[tuple[Callable[[], None], bool]] = []
        self.places = {place: Place(self, place) for place in PLACES}
        self.next_producer_id = 0
        # What the world has seen of each transaction.
        self.fates: dict[Token, bool] = {}
        self.promised: dict[Token, bool] = {}
        self.granted: dict[tuple[int, int], int] = {}
        self.taken_over: set[tuple[int, int]] = set()
        self.stable: dict[TopicPartition, list[Entry]] = {}
        self.runtime = self._start()

    def _age(self) -> None:
        """Some ids have been used for so long that their epochs are nearly used up."""
        for number, name in enumerate(NAMES):
            if self.chance.random() < 0.3:
                epoch = self.chance.randint(CLIENT_EPOCH_MAX - 6, CLIENT_EPOCH_MAX)
                old = TransactionMetadata(
                    name, TxnProducerIdentity(-10 - number, epoch), TIMEOUT_MS
                )
                self.log.append([old.record()])
        self.log.committed_offset = self.log.end_offset

    # ---- the coordinator

    def _start(self) -> Runtime[TransactionCoordinator]:
        self.term += 1
        term = self.term
        runtime: Runtime[TransactionCoordinator] = Runtime(
            lambda: TransactionCoordinator(SETTINGS, term),
            self.log,
            self.time,
            self.time,
            while_loading=CoordinatorLoadInProgress,
            when_lost=NotCoordinator,
            when_full=CoordinatorNotAvailable,
            send=self._send,
        )
        runtime.gained_now()
        return runtime

    def _send(self, effect: WriteMarkers | ProducerTakenOver) -> None:
        if isinstance(effect, WriteMarkers):
            Sender(self, effect).send()
            return
        self.taken_over.add((effect.producer_id, effect.producer_epoch))
        for each in effect.partitions:
            self.places[each].take_over(effect)

    def crash(self) -> None:
        """The coordinator dies; the next one has what was committed, and perhaps more."""
        self.runtime.stop()
        self.log.crash(self.chance)
        self.runtime = self._start()
        for place in self.places.values():
            place.ask_again()
        self.time.advance(0)

    def commit(self) -> None:
        """What was written is safe; what it asked for and is due already happens now."""
        self.log.commit()
        self.time.advance(0)

    def ask(self, event: Any, reply: Reply) -> None:
        """A request has arrived at the coordinator."""

        def done(result: Any) -> None:
            if isinstance(result, NeedsProducerId):
                self.next_producer_id += 1
                self.runtime.submit(replace(event, new_producer_id=self.next_producer_id), reply)
            else:
                reply(result)

        self.runtime.submit(event, done)

    # ---- the network

    def send(self, deliver: Callable[[], None], *, repeatable: bool = False) -> None:
        self.network.append((deliver, repeatable))

    def deliver_one(self) -> None:
        if not self.network:
            return
        place = self.chance.randrange(len(self.network))
        deliver, repeatable = self.network[place]
        if not (repeatable and self.chance.random() < 0.2):
            del self.network[place]
        deliver()

    # ---- what is seen

    def ended(self, token: Token, committed: bool) -> None:
        """Data of a transaction is committed or aborted: everywhere the same, and as promised."""
        known = self.fates.setdefault(token, committed)
        assert known == committed, f"{token} is committed here and aborted there"
        promised = self.promised.get(token, committed)
        assert promised == committed, f"{token} was promised otherwise"

    def promise(self, token: Token, committed: bool) -> None:
        """An EndTxn was answered with NONE."""
        known = self.promised.setdefault(token, committed)
        assert known == committed, f"{token} was promised both"
        assert self.fates.get(token, committed) == committed, f"{token} had ended otherwise"

    def grant(self, client: int, identity: tuple[int, int]) -> None:
        owner = self.granted.setdefault(identity, client)
        assert owner == client, f"{identity} was given to two clients"

    def check(self) -> None:
        for place in self.places.values():
            # What was stable stays as it was, and nothing open is below it.
            before = self.stable.get(place.place, [])
            assert place.entries[: len(before)] == before
            assert place.stable >= len(before), "a transaction opened below the last stable offset"
            self.stable[place.place] = place.entries[: place.stable]
        if self.log.committed_offset == self.log.end_offset:
            self._check_states()

    def _check_states(self) -> None:
        machine = self.runtime.machine
        busy = set()
        for each in machine.transactions:
            if each.status.title in ("Ongoing", "PrepareCommit", "PrepareAbort"):
                busy.add(each.producer.producer_id)
            if each.status.title == "Ongoing" and not each.has_no_timeout:
                late = self.time.now - each.started_ms - each.timeout_ms
                assert late <= SETTINGS.abort_interval_ms, f"{each} outlives its timeout"
        for place in self.places.values():
            hanging = [each for each in place.open if each not in busy]
            assert not hanging, f"{hanging} hang in {place.place}"
