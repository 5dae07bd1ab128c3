"""Clients with a transactional id: feeders write orders, workers turn orders into bills.

A client may be replaced while it lives: its successor fences it, and none of its later requests
may be accepted (zombies.Grants).
"""

from collections.abc import Callable, Mapping, Sequence

from penstock.model import TopicPartition
from penstock.testing.history import OpenTransaction, Sending
from penstock.testing.history import Place as InputRecord
from penstock.testing.sim.cluster.delivery_client import (
    BILLING,
    BILLS,
    ORDERS,
    TOPIC_PARTITIONS,
    Deliveries,
    DeliveryClient,
)
from penstock.testing.sim.cluster.group_position import GroupPosition, JoinGroup
from penstock.testing.sim.cluster.routing import RoutedScript
from penstock.testing.sim.group_member import Dismissed, SimMembership
from penstock.testing.sim.partition_cursor import Fetched
from penstock.testing.sim.transactional import (
    RequestRejected,
    TransactionalProducer,
    TransactionApiVersions,
)
from penstock.testing.sim.zombies import NO_PRODUCER

DECISION_PACES = 4.0  # at most, between a take-over and the end of its transaction

Outputs = Mapping[TopicPartition, Sequence[tuple[bytes, InputRecord | None]]]


class TransactionalClient(DeliveryClient):
    """A client with a transactional id. A later client of the same id is its successor."""

    may_be_taken_over = False  # a successor may commit the open transaction of this client

    def __init__(self, shared: Deliveries, name: str, transactional_id: str) -> None:
        super().__init__(shared, name)
        self.transactional_id = transactional_id
        self.is_current = True  # without a successor
        self.producer: TransactionalProducer

    def make_producer(self, *, is_new: bool | None = None) -> None:
        """Make a producer of the new protocol, of the old one, or of a drawn one."""
        if is_new is None:
            is_new = self.chance.random() < 0.6
        versions = TransactionApiVersions.draw(self.chance, new_protocol=is_new)
        self.producer = TransactionalProducer(
            self,
            self.transactional_id,
            versions,
            self.facts,
            self.shared.grants,
            timeout_ms=self.shared.timeout_ms,
        )

    def begin(self, *, is_new: bool) -> RoutedScript[bool]:
        """Get an epoch to write with. Return False if a successor has one."""
        goes_on = not is_new and self.chance.random() < 0.7
        while is_new or self.is_current:
            try:
                yield from self.play(self.producer.begin_life(goes_on=goes_on))
            except RequestRejected:
                goes_on = is_new = False  # a transaction that timed out has raised the epoch
            else:
                return True
        self.run.count("fenced zombies")
        return False

    def begin_transaction(self) -> OpenTransaction:
        return self.process.begin(self.transactional_id)

    def transact(self, work: Callable[[OpenTransaction], RoutedScript[bool]]) -> RoutedScript[bool]:
        """Run one transaction; return whether it is committed. Raise RequestRejected if this
        producer needs another epoch."""
        transaction = self.begin_transaction()
        wants_commit = False
        try:
            wants_commit = yield from work(transaction)
        except RequestRejected as rejected:
            if not rejected.abortable:
                raise
        if wants_commit:
            transaction.commit_asked()
            try:
                yield from self.play(self.producer.end(committed=True))
            except RequestRejected as rejected:
                if rejected.certain and not self.may_be_taken_over:
                    transaction.aborted()
                raise
            transaction.committed()
            self.run.count("transactions committed")
        else:
            yield from self.play(self.producer.end(committed=False))
            transaction.aborted()
            self.run.count("transactions aborted")
            if self.producer.needs_epoch:
                yield from self.play(self.producer.begin_life(goes_on=True))
        return wants_commit

    def send(self, transaction: OpenTransaction, outputs: Outputs) -> RoutedScript[None]:
        """Write values, each with the input that it comes from."""
        sendings = {
            partition: [
                self.process.send(partition, value, transaction=transaction, source=source)
                for value, source in values
            ]
            for partition, values in outputs.items()
        }
        stored: dict[TopicPartition, int] = {}
        values = {partition: [value for value, _ in each] for partition, each in outputs.items()}
        try:
            yield from self.play(self.producer.send(values, stored))
        except RequestRejected as rejected:
            _note_outcome(sendings, stored, others_failed=rejected.certain)
            raise
        _note_outcome(sendings, stored, others_failed=False)


def _note_outcome(
    sendings: Mapping[TopicPartition, Sequence[Sending]],
    stored: Mapping[TopicPartition, int],
    *,
    others_failed: bool,
) -> None:
    for partition, each in sendings.items():
        base_offset = stored.get(partition)
        for number, sending in enumerate(each):
            if base_offset is not None:
                sending.ok(base_offset + number if base_offset >= 0 else None)
            elif others_failed:
                sending.failed()


class FeedingClient(TransactionalClient):
    """Writes orders in transactions until the end of the faults, and aborts some of them."""

    def script(self) -> RoutedScript[None]:
        yield from self.find_topics()
        self.make_producer()
        alive = yield from self.begin(is_new=True)
        yield from self.feed(alive=alive)

    def feed(self, *, alive: bool) -> RoutedScript[None]:
        while alive and not self.shared.is_calm:
            try:
                yield from self.transact(self._work)
            except RequestRejected:
                alive = yield from self.begin(is_new=False)
            yield self.rest_between()

    def _work(self, transaction: OpenTransaction) -> RoutedScript[bool]:
        for _ in range(self.chance.randint(1, 2)):
            partitions = [each for each in TOPIC_PARTITIONS[ORDERS] if self.chance.random() < 0.7]
            for partition in partitions:
                count = self.chance.randint(1, 3)
                values = [(self.shared.new_value(self.name), None) for _ in range(count)]
                yield from self.send(transaction, {partition: values})
            yield self.rest_between()
        return self.chance.random() < 0.75


class TakeOverClient(FeedingClient):
    """Writes orders as a feeder does. Each life takes over the transaction that the former one has
    left open, and ends it."""

    may_be_taken_over = True

    def script(self) -> RoutedScript[None]:
        yield from self.find_topics()
        self.make_producer(is_new=True)
        alive = True
        try:
            yield from self._take_over()
        except RequestRejected:
            alive = yield from self.begin(is_new=False)
        yield from self.feed(alive=alive)

    def _take_over(self) -> RoutedScript[None]:
        shared = self.shared
        two_phase_commit = self.chance.random() < 0.5
        kept = yield from self.play(self.producer.take_over(two_phase_commit=two_phase_commit))
        if kept == NO_PRODUCER:
            return
        self.run.count("take-overs")
        self.run.taken_over(*kept)
        transaction = shared.open_transactions[kept]
        # The content of the transaction is final by now: its owner has time for the decision.
        yield self.pause(0.0, DECISION_PACES * shared.pace_ms)
        committed = self.chance.random() < 0.75
        if committed:
            transaction.commit_asked()
        yield from self.play(self.producer.end(committed=committed))
        if committed:
            transaction.committed()
        else:
            transaction.aborted()

    def begin_transaction(self) -> OpenTransaction:
        transaction = super().begin_transaction()
        self.shared.open_transactions[self.producer.identity] = transaction
        return transaction


class WorkingClient(TransactionalClient):
    """Reads orders as a member of a group, writes a bill for each, and commits its position in the
    same transaction."""

    def __init__(
        self, shared: Deliveries, name: str, transactional_id: str, join: JoinGroup
    ) -> None:
        super().__init__(shared, name, transactional_id)
        self._join = join
        self.membership: SimMembership

    def script(self) -> RoutedScript[None]:
        yield from self.find_topics()
        self.make_producer()
        self.membership = self._join(self, {ORDERS: self.facts[ORDERS]})
        self._position = GroupPosition(self, BILLING)
        alive = yield from self.begin(is_new=True)
        try:
            while alive and not self.shared.is_over:
                alive = yield from self._round()
                yield self.rest_between()
            yield from self.play(self.membership.leave())
        except Dismissed:
            pass

    def _round(self) -> RoutedScript[bool]:
        position = self._position
        if (yield from self.play(self.membership.speak())):
            position.restart()
        yield from position.find(self.membership.partitions)
        records = yield from position.poll()
        moved = position.moved
        if not moved:
            return True
        try:
            done = yield from self.transact(lambda each: self._work(each, records, moved))
        except RequestRejected:
            position.restart()
            return (yield from self.begin(is_new=False))
        if done:
            position.committed.update(moved)
        else:
            position.go_back()
        return True

    def _work(
        self,
        transaction: OpenTransaction,
        records: Sequence[Fetched],
        moved: Mapping[TopicPartition, int],
    ) -> RoutedScript[bool]:
        outputs: dict[TopicPartition, list[tuple[bytes, InputRecord | None]]] = {}
        for partition, offset, _value in records:
            value = self.shared.new_value(f"{partition}@{offset} by {self.name}")
            bill = self.chance.choice(TOPIC_PARTITIONS[BILLS])
            outputs.setdefault(bill, []).append((value, InputRecord(partition, offset)))
        for partition, values in outputs.items():
            yield from self.send(transaction, {partition: values})
        yield from self._commit(transaction, moved)
        return self.shared.is_calm or self.chance.random() < 0.85

    def _commit(
        self, transaction: OpenTransaction, moved: Mapping[TopicPartition, int]
    ) -> RoutedScript[None]:
        owners = self.shared.owners
        others = owners.others(BILLING, list(moved), self.name)
        committing = self.process.commit_offsets(BILLING, moved, transaction)
        member, epochs = self.membership.member, self._position.leader_epochs
        try:
            yield from self.play(self.producer.commit_offsets(BILLING, moved, member, epochs))
        except RequestRejected as rejected:
            if rejected.certain:
                committing.failed()
            raise
        committing.ok()
        if others:
            owners.accepted(BILLING, self.name, others)
