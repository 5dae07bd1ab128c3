"""The clients of a delivery: those who feed, work, commit, read and watch."""

from collections.abc import Callable, Mapping, Sequence

from delivery_actors import (
    BILLS,
    ISOLATIONS,
    OFFSET_FETCH_VERSIONS,
    ORDERS,
    PARTITIONS,
    PLACES,
    Actor,
    Positions,
    Run,
    Transactor,
    polled,
)

from penstock.model import TopicPartition
from penstock.testing.history import Isolation, OpenTransaction, Place
from penstock.testing.sim.group_member import (
    FENCED_INSTANCE,
    FENCED_MEMBER,
    GROUP_NOT_FOUND,
    ILLEGAL_GENERATION,
    PASSING,
    REBALANCING,
    STALE_MEMBER,
    UNKNOWN_MEMBER,
    Dismissed,
    SimMembership,
)
from penstock.testing.sim.group_offsets import fetch_offsets, offset_commit
from penstock.testing.sim.partition_cursor import READ_COMMITTED, Fetched, PartitionCursor
from penstock.testing.sim.script import GROUP, Script, ScriptedClient, TopicFacts
from penstock.testing.sim.transactional import CommittingMember, RequestRejected, error_codes

BILLING = "billing"
# The group has gone on without whoever commits.
COMMIT_REFUSED = (
    ILLEGAL_GENERATION,
    UNKNOWN_MEMBER,
    REBALANCING,
    GROUP_NOT_FOUND,
    FENCED_INSTANCE,
    FENCED_MEMBER,
    STALE_MEMBER,
)

Join = Callable[[ScriptedClient, Mapping[str, TopicFacts]], SimMembership]


class Feeder(Transactor):
    """Writes orders in transactions, and gives up some of them."""

    def __init__(self, run: Run, name: str, transactional_id: str, quota: list[int]) -> None:
        """`quota` is what is left to do for all lives of this name."""
        super().__init__(run, name, transactional_id)
        self._quota = quota

    def script(self) -> Script[None]:
        yield from self.make_producer()
        alive = yield from self.begin(new_life=True)
        while alive and self._quota[0] > 0 and not self.retiring:
            try:
                if (yield from self.transact(self._work)):
                    self._quota[0] -= 1
            except RequestRejected:
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
        self.membership: SimMembership | None = None

    def script(self) -> Script[None]:
        yield from self.make_producer()
        yield from self.coordinator(GROUP, BILLING)
        topics = yield from self.topics([ORDERS])
        cursor = PartitionCursor(
            self.name, self.chance, topics, READ_COMMITTED, sessions=False, wait_ms=(0, 30)
        )
        self._positions = Positions(self, BILLING, cursor)
        if self._join is not None:
            self.membership = self._join(self, topics)
        alive = yield from self.begin(new_life=True)
        try:
            while alive and self.goes_on:
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
        except RequestRejected:
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
        member = CommittingMember() if membership is None else membership.member
        others = [] if membership is None else owners.others(BILLING, list(moved), self.name)
        committing = self.process.commit_offsets(BILLING, moved, transaction)
        try:
            yield from self.producer.commit_offsets(BILLING, moved, member)
        except RequestRejected as refused:
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
        self.membership: SimMembership | None = None

    def script(self) -> Script[None]:
        topics = yield from self.topics([BILLS])
        yield from self.coordinator(GROUP, self.group)
        isolation = ISOLATIONS[self.process.isolation]
        cursor = PartitionCursor(
            self.name, self.chance, topics, isolation, sessions=False, wait_ms=(0, 30)
        )
        positions = Positions(self, self.group, cursor)
        if self._join is not None:
            self.membership = self._join(self, topics)
        try:
            while self.goes_on:
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
        member = CommittingMember() if membership is None else membership.member
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
        cursor = PartitionCursor(self.name, self.chance, topics, isolation, sessions=True)
        cursor.positions = self.positions
        for places in PLACES.values():
            cursor.positions.update(dict.fromkeys(places, 0))
        while self.goes_on:
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
                cursor = PartitionCursor(
                    self.name, self.chance, {topic: topics[topic]}, isolation, sessions=False
                )
                yield from self._read(place, cursor)

    def _read(self, place: TopicPartition, cursor: PartitionCursor) -> Script[None]:
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
        while self.goes_on:
            for group, topic in self._groups.items():
                version = self.chance.choice(OFFSET_FETCH_VERSIONS)
                fetching = self.process.fetch_offsets(group)
                found = yield from fetch_offsets(version, group, PLACES[topic], topics)
                fetching.got({each: committed.offset for each, committed in found.items()})
                for place, (offset, _leader_epoch) in found.items():
                    before = self.progress.get((group, place), -1)
                    if offset < before:
                        self.run.violations.append(
                            f"{group} went back from {before} to {offset} in {place}"
                        )
                    self.progress[group, place] = offset
            yield self.pause(0.0, 3 * self.run.pace_ms)
