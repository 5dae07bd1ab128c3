"""The clients of a delivery: those who feed, work, commit, read and watch; all of it recorded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from delivery_courier import Courier

from penstock.model import TopicPartition
from penstock.testing.history import Isolation, OpenTransaction, Place, Polled, Recorder, Sending
from penstock.testing.sim.group_member import (
    FENCED_MEMBER,
    GROUP_NOT_FOUND,
    ILLEGAL_GENERATION,
    PASSING,
    REBALANCING,
    STALE_MEMBER,
    UNKNOWN_MEMBER,
    Dismissed,
    Membership,
    Owners,
    fetch_offsets,
    offset_commit,
)
from penstock.testing.sim.reading import READ_COMMITTED, READ_UNCOMMITTED, Cursor, Fetched
from penstock.testing.sim.script import GROUP, TRANSACTION, Ask, Pause, Script, ScriptedClient
from penstock.testing.sim.transactional import (
    Grants,
    Member,
    Refused,
    TransactionalProducer,
    Versions,
    error_codes,
)
from penstock.testing.sim.world import Simulation

ORDERS, BILLS = "orders", "bills"
PARTITIONS = {ORDERS: 2, BILLS: 2}
PLACES = {
    topic: [TopicPartition(topic, each) for each in range(count)]
    for topic, count in PARTITIONS.items()
}
BILLING = "billing"
GROUP_LEFT = (ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, GROUP_NOT_FOUND)
COMMIT_REFUSED = (*GROUP_LEFT, FENCED_MEMBER, STALE_MEMBER, 82)
OFFSET_FETCH_VERSIONS = (8, 9, 10)
ISOLATIONS = {
    Isolation.READ_COMMITTED: READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: READ_UNCOMMITTED,
}

Join = Callable[[ScriptedClient, Mapping[str, object]], Membership]


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
        self.process = run.recorder.process(name, isolation)

    def _overheard_by(self, client: ScriptedClient, ask: Ask) -> None:
        self.run.asked += ask.speaker is not None
        self.run.courier.overhear(client, ask)

    def rest(self) -> Pause:
        """Between two things; now and then for so long that others take it for dead."""
        if not self.run.calm and self.chance.random() < 0.04:
            return self.pause(0.0, 1.5 * self.run.timeout_ms)
        return self.pause(0.0, self.run.pace_ms)

    def saw(self, cursor: Cursor) -> None:
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
            except Refused:
                if not self.is_current:
                    return False
                goes_on = False  # fenced by nobody who is there: the name is still its own
            else:
                return True

    def make_producer(self) -> Script[None]:
        topics = yield from self.topics(PARTITIONS)
        yield from self.coordinator(TRANSACTION, self.transactional_id)
        versions = Versions.draw(self.chance, new_protocol=self.chance.random() < 0.6)
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
        except Refused as refused:
            if not refused.abortable:
                raise
        speaker, places = self.producer.speaker, self.producer.places
        if wants_commit:
            transaction.commit_asked()
            try:
                yield from self.producer.end(committed=True)
            except Refused as refused:
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
        except Refused as refused:
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


class Feeder(Transactor):
    """Writes orders in transactions, and gives up some of them."""

    def __init__(self, run: Run, name: str, transactional_id: str, quota: list[int]) -> None:
        """`quota` is what is left to do for all lives of this name."""
        super().__init__(run, name, transactional_id)
        self._quota = quota

    def script(self) -> Script[None]:
        yield from self.make_producer()
        alive = yield from self.begin(new_life=True)
        while alive and self._quota[0] > 0:
            try:
                if (yield from self.transact(self._work)):
                    self._quota[0] -= 1
            except Refused:
                alive = yield from self.begin(new_life=False)
            yield self.rest()

    def _work(self, transaction: OpenTransaction) -> Script[bool]:
        for _ in range(self.chance.randint(1, 3)):
            places = [each for each in PLACES[ORDERS] if self.chance.random() < 0.7]
            outputs = {
                place: [(self.run.value(self.name), None) for _ in range(self.chance.randint(1, 3))]
                for place in places
            }
            if outputs:
                yield from self.send(transaction, outputs)
            yield self.rest()
        return self.chance.random() < 0.75


class Positions:
    """Where a consumer of a group is, and how far it has told the group."""

    def __init__(self, actor: Actor, group: str, cursor: Cursor) -> None:
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
        fetching.got(dict(found))
        for place, offset in found.items():
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


class Worker(Transactor):
    """Reads orders, writes a bill for each, and commits what it has read with them."""

    group = BILLING

    def __init__(
        self,
        run: Run,
        name: str,
        transactional_id: str,
        join: Join | None,
        partitions: Sequence[TopicPartition] = (),
    ) -> None:
        """Without a group to join it has these partitions, whoever else is there."""
        super().__init__(run, name, transactional_id)
        self._join = join
        self._partitions = tuple(partitions)
        self.membership: Membership | None = None

    def script(self) -> Script[None]:
        yield from self.make_producer()
        yield from self.coordinator(GROUP, BILLING)
        topics = yield from self.topics([ORDERS])
        cursor = Cursor(
            self.name, self.chance, topics, READ_COMMITTED, sessions=False, wait_ms=(0, 30)
        )
        self._positions = Positions(self, BILLING, cursor)
        if self._join is not None:
            self.membership = self._join(self, topics)
        alive = yield from self.begin(new_life=True)
        try:
            while alive and not self.run.over:
                alive = yield from self._round()
                yield self.rest()
            if self.membership is not None:
                yield from self.membership.leave()
        except Dismissed:
            pass

    def _round(self) -> Script[bool]:
        positions = self._positions
        if self.membership is not None:
            if (yield from self.membership.speak()):
                positions.begin_anew()
            self._partitions = self.membership.partitions
        yield from positions.find(self._partitions)
        if not positions.committed:
            return True
        records = yield from positions.poll()
        moved = positions.moved
        if not moved:
            return True
        try:
            done = yield from self.transact(
                lambda transaction: self._work(transaction, records, moved)
            )
        except Refused:
            positions.begin_anew()
            return (yield from self.begin(new_life=False))
        if done:
            positions.committed.update(moved)
        else:
            positions.go_back()
        return True

    def _work(
        self,
        transaction: OpenTransaction,
        records: Sequence[Fetched],
        moved: Mapping[TopicPartition, int],
    ) -> Script[bool]:
        outputs: dict[TopicPartition, list[tuple[bytes, Place | None]]] = {}
        for partition, offset, _value in records:
            value = self.run.value(f"{partition}@{offset} by {self.name}")
            bill = self.chance.choice(PLACES[BILLS])
            outputs.setdefault(bill, []).append((value, Place(partition, offset)))
        if outputs:
            yield from self.send(transaction, outputs)
        yield self.rest()
        yield from self._commit(transaction, moved)
        yield self.rest()
        return self.run.calm or self.chance.random() < 0.85

    def _commit(
        self, transaction: OpenTransaction, moved: Mapping[TopicPartition, int]
    ) -> Script[None]:
        membership, owners = self.membership, self.run.owners
        member = Member() if membership is None else membership.member
        others = [] if membership is None else owners.others(BILLING, list(moved), self.name)
        committing = self.process.commit_offsets(BILLING, moved, transaction)
        try:
            yield from self.producer.commit_offsets(BILLING, moved, member)
        except Refused as refused:
            if refused.certain:
                committing.failed()
            raise
        committing.ok()
        if others:
            owners.accepted(BILLING, self.name, others)


class Committer(Actor):
    """Reads bills as a member of a group, or alone, and commits without transactions."""

    def __init__(self, run: Run, name: str, group: str, join: Join | None) -> None:
        isolation = run.simulation.chance.choice(list(Isolation))
        super().__init__(run, name, isolation)
        self.group = group
        self._join = join
        self.membership: Membership | None = None

    def script(self) -> Script[None]:
        topics = yield from self.topics([BILLS])
        yield from self.coordinator(GROUP, self.group)
        isolation = ISOLATIONS[self.process.isolation]
        cursor = Cursor(self.name, self.chance, topics, isolation, sessions=False, wait_ms=(0, 30))
        positions = Positions(self, self.group, cursor)
        if self._join is not None:
            self.membership = self._join(self, topics)
        try:
            while not self.run.over:
                if self.membership is not None and (yield from self.membership.speak()):
                    positions.begin_anew()
                wanted = PLACES[BILLS] if self.membership is None else self.membership.partitions
                yield from positions.find(wanted)
                if positions.committed:
                    yield from positions.poll()
                    yield from self._commit(positions)
                yield self.rest()
            if self.membership is not None:
                yield from self.membership.leave()
        except Dismissed:
            pass

    def _commit(self, positions: Positions) -> Script[None]:
        moved = positions.moved
        if not moved:
            return
        topics = yield from self.topics(PARTITIONS)
        membership, owners = self.membership, self.run.owners
        versions = (2, 6, 8, 9, 10) if membership is None else membership.commit_versions
        member = Member() if membership is None else membership.member
        others = [] if membership is None else owners.others(self.group, list(moved), self.name)
        committing = self.process.commit_offsets(self.group, moved)
        ask = offset_commit(self.chance.choice(versions), self.group, moved, topics, member)
        response = yield ask
        if response is None:
            return
        codes = error_codes(ask.key, response)
        if not any(codes):
            committing.ok()
            positions.committed.update(moved)
            if others:
                owners.accepted(self.group, self.name, others)
        elif all(code in COMMIT_REFUSED for code in codes):
            committing.failed()
        else:
            assert all(code in (0, *PASSING) for code in codes), f"{self.name}: errors {codes}"


class Reader(Actor):
    """Reads everything from the beginning, and goes on as long as the run does."""

    def __init__(self, run: Run, name: str, isolation: Isolation) -> None:
        super().__init__(run, name, isolation)
        self.positions: dict[TopicPartition, int] = {}

    def script(self) -> Script[None]:
        topics = yield from self.topics(PARTITIONS)
        isolation = ISOLATIONS[self.process.isolation]
        cursor = Cursor(self.name, self.chance, topics, isolation, sessions=True)
        cursor.positions = self.positions
        for places in PLACES.values():
            cursor.positions.update(dict.fromkeys(places, 0))
        while not self.run.over:
            polling = self.process.poll()
            response = yield cursor.request()
            if response is None:
                cursor.lost()
            else:
                polling.got(polled(cursor.take(response)))
                self.saw(cursor)
            yield self.pause(0.0, 10.0)


class LastReader(Actor):
    """Reads every log to the end that it has by now."""

    def script(self) -> Script[None]:
        topics = yield from self.topics(PARTITIONS)
        isolation = ISOLATIONS[self.process.isolation]
        for topic, places in PLACES.items():
            for place in places:
                cursor = Cursor(
                    self.name, self.chance, {topic: topics[topic]}, isolation, sessions=False
                )
                yield from self._read(place, cursor)

    def _read(self, place: TopicPartition, cursor: Cursor) -> Script[None]:
        reading = self.process.read_to_end(place)
        cursor.positions[place] = 0
        end: int | None = None
        while end is None or cursor.positions[place] < end:
            polling = self.process.poll()
            response = yield cursor.request()
            if response is not None:
                polling.got(polled(cursor.take(response)))
                self.saw(cursor)
                end = cursor.high_watermarks.get(place) if end is None else end
        reading.reached(end)


class Watcher(Actor):
    """Asks for the progress of every group, again and again: it never goes back."""

    def __init__(self, run: Run, name: str, groups: Mapping[str, str]) -> None:
        """`groups` and the topic that each reads."""
        super().__init__(run, name)
        self._groups = groups
        self.progress: dict[tuple[str, TopicPartition], int] = {}

    def script(self) -> Script[None]:
        topics = yield from self.topics(PARTITIONS)
        for group in self._groups:
            yield from self.coordinator(GROUP, group)
        while not self.run.over:
            for group, topic in self._groups.items():
                version = self.chance.choice(OFFSET_FETCH_VERSIONS)
                fetching = self.process.fetch_offsets(group)
                found = yield from fetch_offsets(version, group, PLACES[topic], topics)
                fetching.got(dict(found))
                for place, offset in found.items():
                    before = self.progress.get((group, place), -1)
                    if offset < before:
                        self.run.violations.append(
                            f"{group} went back from {before} to {offset} in {place}"
                        )
                    self.progress[group, place] = offset
            yield self.pause(0.0, 3 * self.run.pace_ms)
