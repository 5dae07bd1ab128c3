"""What the clients of a delivery have in common: a history, transactions, positions in a group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from delivery_courier import Courier

from penstock.model import TopicPartition
from penstock.testing.history import Isolation, OpenTransaction, Place, Polled, Recorder, Sending
from penstock.testing.sim.group_offsets import fetch_offsets
from penstock.testing.sim.partition_cursor import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    PartitionCursor,
)
from penstock.testing.sim.script import TRANSACTION, Ask, Script, ScriptedClient, ScriptPause
from penstock.testing.sim.transactional import (
    RequestRejected,
    TransactionalProducer,
    TransactionApiVersions,
)
from penstock.testing.sim.world import Simulation
from penstock.testing.sim.zombies import Grants, Owners

ORDERS, BILLS = "orders", "bills"
PARTITIONS = {ORDERS: 2, BILLS: 2}
PLACES = {
    topic: [TopicPartition(topic, each) for each in range(count)]
    for topic, count in PARTITIONS.items()
}
OFFSET_FETCH_VERSIONS = (8, 9, 10)
ISOLATIONS = {
    Isolation.READ_COMMITTED: READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: READ_UNCOMMITTED,
}


@dataclass
class Run:
    """What the clients of a run share."""

    simulation: Simulation
    node: tuple[str, int]
    timeout_ms: int
    pace_ms: float  # the longest rest between two things
    recorder: Recorder = field(default_factory=Recorder)
    grants: Grants = field(default_factory=Grants)
    owners: Owners = field(default_factory=Owners)
    violations: list[str] = field(default_factory=list)
    calm: bool = False  # nobody is troubled any more, nobody gives up on purpose
    over: bool = False  # everybody finishes
    courier: Courier = field(init=False)
    asked: int = 0  # requests of those who write
    values: int = 0

    def __post_init__(self) -> None:
        self.courier = Courier(self.simulation, self.node, self.grants, self.owners)

    def value(self, what: str) -> bytes:
        """Unlike every other."""
        self.values += 1
        return f"{what}#{self.values}".encode()


class Actor(ScriptedClient):
    """A client whose doings go into the history."""

    def __init__(
        self, run: Run, name: str, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> None:
        super().__init__(run.simulation, name, run.node, self._overheard_by)
        self.run = run
        self.retiring = False
        self.process = run.recorder.process(name, isolation)

    @property
    def goes_on(self) -> bool:
        """Else it finishes what it has begun, and leaves."""
        return not self.run.over and not self.retiring

    def _overheard_by(self, client: ScriptedClient, ask: Ask) -> None:
        self.run.asked += ask.speaker is not None
        self.run.courier.overhear(client, ask)

    def rest(self) -> ScriptPause:
        """Between two things; now and then for so long that others take it for dead."""
        if not self.run.calm and self.chance.random() < 0.04:
            return self.pause(0.0, 1.5 * self.run.timeout_ms)
        return self.pause(0.0, self.run.pace_ms)

    def saw(self, cursor: PartitionCursor) -> None:
        self.run.violations += cursor.violations
        cursor.violations.clear()


def polled(records: Sequence[Fetched]) -> list[Polled]:
    return [Polled(*each) for each in records]


class Transactor(Actor):
    """A client with a transactional id. Whoever has the same name after it is its successor."""

    def __init__(self, run: Run, name: str, transactional_id: str) -> None:
        super().__init__(run, name)
        self.transactional_id = transactional_id
        self.is_current = True  # nobody else was started in its place
        self.producer: TransactionalProducer

    def begin(self, *, new_life: bool) -> Script[bool]:
        """An epoch to write with. False if somebody else has taken over."""
        goes_on = not new_life and self.chance.random() < 0.7
        while True:
            try:
                yield from self.producer.begin_life(goes_on=goes_on)
            except RequestRejected:
                if not self.is_current:
                    return False
                goes_on = False  # fenced by nobody who is there: the name is still its own
            else:
                return True

    def make_producer(self) -> Script[None]:
        topics = yield from self.topics(PARTITIONS)
        yield from self.coordinator(TRANSACTION, self.transactional_id)
        versions = TransactionApiVersions.draw(self.chance, new_protocol=self.chance.random() < 0.6)
        self.producer = TransactionalProducer(
            self,
            self.transactional_id,
            versions,
            topics,
            self.run.grants,
            timeout_ms=self.run.timeout_ms,
        )

    def transact(self, work: Callable[[OpenTransaction], Script[bool]]) -> Script[bool]:
        """One transaction; whether it is committed. Refused if this producer cannot go on."""
        transaction = self.process.begin(self.transactional_id)
        wants_commit = False
        try:
            wants_commit = yield from work(transaction)
        except RequestRejected as refused:
            if not refused.abortable:
                raise
        speaker, places = self.producer.speaker, self.producer.topic_partitions
        if wants_commit:
            transaction.commit_asked()
            try:
                yield from self.producer.end(committed=True)
            except RequestRejected as refused:
                if refused.certain:
                    transaction.aborted()
                raise
            transaction.committed()
        else:
            yield from self.producer.end(committed=False)
            transaction.aborted()
            if self.producer.needs_epoch:
                yield from self.producer.begin_life(goes_on=True)
        self.run.courier.ended(speaker, places, committed=wants_commit)
        return wants_commit

    def send(
        self,
        transaction: OpenTransaction,
        outputs: Mapping[TopicPartition, Sequence[tuple[bytes, Place | None]]],
    ) -> Script[None]:
        """Values, each with the input that it comes from."""
        sendings = {
            place: [
                self.process.send(place, value, transaction=transaction, source=source)
                for value, source in values
            ]
            for place, values in outputs.items()
        }
        stored: dict[TopicPartition, int] = {}
        values = {place: [value for value, _ in each] for place, each in outputs.items()}
        try:
            yield from self.producer.send(values, stored)
        except RequestRejected as refused:
            _tell(sendings, stored, others_failed=refused.certain)
            raise
        _tell(sendings, stored, others_failed=False)


def _tell(
    sendings: Mapping[TopicPartition, Sequence[Sending]],
    stored: Mapping[TopicPartition, int],
    *,
    others_failed: bool,
) -> None:
    for place, each in sendings.items():
        base_offset = stored.get(place)
        for number, sending in enumerate(each):
            if base_offset is not None:
                sending.ok(base_offset + number if base_offset >= 0 else None)
            elif others_failed:
                sending.failed()


class Positions:
    """Where a consumer of a group is, and how far it has told the group."""

    def __init__(self, actor: Actor, group: str, cursor: PartitionCursor) -> None:
        self._actor = actor
        self._group = group
        self.cursor = cursor
        self.committed: dict[TopicPartition, int] = {}

    @property
    def moved(self) -> dict[TopicPartition, int]:
        positions = self.cursor.positions
        return {each: at for each, at in positions.items() if at != self.committed[each]}

    def begin_anew(self) -> None:
        """The group knows better where to go on."""
        self._actor.process.revoked(list(self.committed))
        self.cursor.positions.clear()
        self.committed.clear()

    def find(self, wanted: Sequence[TopicPartition]) -> Script[None]:
        """Positions for these, as far as the group knows them by now."""
        actor = self._actor
        missing = [each for each in wanted if each not in self.committed]
        if not missing:
            return
        topics = yield from actor.topics(PARTITIONS)
        version = actor.chance.choice(OFFSET_FETCH_VERSIONS)
        fetching = actor.process.fetch_offsets(self._group)
        found = yield from fetch_offsets(version, self._group, missing, topics)
        fetching.got({each: committed.offset for each, committed in found.items()})
        for place, (offset, _leader_epoch) in found.items():
            self.committed[place] = self.cursor.positions[place] = max(0, offset)
            actor.process.sought(place, max(0, offset))

    def go_back(self) -> None:
        """To where the group is."""
        for place, offset in self.committed.items():
            self.cursor.positions[place] = offset
            self._actor.process.sought(place, offset)

    def poll(self) -> Script[list[Fetched]]:
        polling = self._actor.process.poll()
        response = yield self.cursor.request()
        if response is None:
            self.cursor.lost()
            return []
        records = self.cursor.take(response)
        polling.got(polled(records))
        self._actor.saw(self.cursor)
        return records
