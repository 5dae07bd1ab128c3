"""Producers of the small world of txn_world: they write, end, repeat themselves, and get fenced."""

from typing import Any

from txn_world import PLACES, TIMEOUT_MS, Reply, Token, World, Write

from penstock.coordinator.transactions.events import AddPartitions, EndTransaction, InitProducer
from penstock.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
)
from penstock.model import TopicPartition


class Client:
    """One producer, from its InitProducerId until it is fenced or dies."""

    def __init__(self, world: World, number: int, name: str, *, v2: bool, two_phase: bool) -> None:
        self.world = world
        self.number = number
        self.name = name
        self.v2 = v2
        self.two_phase = two_phase
        self.identity: tuple[int, int] | None = None
        self.expected = (-1, -1)  # who a client that goes on was
        self.kept: Token | None = None
        self.transactions = 0
        self.sequences: dict[TopicPartition, int] = {}
        self.unanswered: dict[TopicPartition, Write] = {}
        self.written = 0
        self.failed = False
        self.ending: EndTransaction | None = None
        self.waiting: object | None = None  # the one answer that counts
        self.dead = False

    @property
    def token(self) -> Token:
        return self.number, self.transactions

    def act(self) -> None:
        if self.dead:
            return
        chance = self.world.chance
        if self.identity is None:
            self._begin()
        elif self.ending is not None:
            self._end(self.ending)
        elif self.kept is not None:
            self._decide(committed=chance.random() < 0.7)
        elif self.failed or (self.written and chance.random() < 0.4):
            if not self.unanswered or chance.random() < 0.3:
                clean = not self.failed and not self.unanswered
                self._decide(committed=clean and chance.random() < 0.8)
            else:
                self._write_again()
        else:
            self._write()

    # ---- beginning

    def _begin(self) -> None:
        new = self.expected == (-1, -1)
        keep = self.two_phase and new and self.world.chance.random() < 0.7
        event = InitProducer(self.name, TIMEOUT_MS, *self.expected, self.two_phase, keep)

        def answered(result: Any) -> None:
            if isinstance(result, KafkaError):
                self.dead = not result.retriable
                return
            identity = result.producer_id, result.producer_epoch
            self.world.grant(self.number, identity)
            self.identity = identity
            if result.ongoing_producer_id >= 0:
                ongoing = result.ongoing_producer_id, result.ongoing_producer_epoch
                self.kept = self._token_of(ongoing)

        self._ask(event, answered, repeatable=False)

    def _token_of(self, ongoing: tuple[int, int]) -> Token:
        """Whose transaction is kept; one that nobody wrote in is as good as our own."""
        for place in self.world.places.values():
            for entry in place.entries:
                if (entry.producer_id, entry.epoch) == ongoing and entry.token is not None:
                    return entry.token
        return self.token

    # ---- writing

    def _write(self) -> None:
        place = self.world.chance.choice(PLACES)
        if place in self.unanswered:
            self._write_again()
            return
        assert self.identity is not None
        sequence = self.sequences.get(place, 0)
        self.written += 1
        write = Write(self.name, *self.identity, sequence, self.token, self.v2, lambda _: None)
        write.reply = lambda result: self._write_answered(place, write, result)
        self.unanswered[place] = write
        if self.v2:
            self._send_write(place, write)
            return
        added = AddPartitions(self.name, *self.identity, (place,))

        def answered(result: Any) -> None:
            if self.unanswered.get(place) is not write:
                return
            if isinstance(result, KafkaError):
                del self.unanswered[place]
                self._refused(result)
            else:
                self._send_write(place, write)

        self._ask(added, answered, repeatable=False)

    def _write_again(self) -> None:
        if self.v2 and self.unanswered:
            place = self.world.chance.choice(list(self.unanswered))
            self._send_write(place, self.unanswered[place])

    def _send_write(self, place: TopicPartition, write: Write) -> None:
        leader = self.world.places[place]
        self.world.send(lambda: leader.write(write), repeatable=self.v2)

    def _write_answered(self, place: TopicPartition, write: Write, result: Any) -> None:
        if self.unanswered.get(place) is not write:
            return
        passing = ConcurrentTransactions | NotCoordinator | CoordinatorLoadInProgress
        if isinstance(result, passing):
            self._send_write(place, write)
            return
        del self.unanswered[place]
        if isinstance(result, KafkaError):
            self._refused(result)
        else:
            self.sequences[place] = write.sequence + 1

    def _refused(self, error: KafkaError) -> None:
        if error.retriable or (self.v2 and isinstance(error, InvalidTxnState)):
            self.failed = True
        else:
            self._go_on_or_die()

    def _go_on_or_die(self) -> None:
        """A client that was refused asks for another epoch, if it may have one."""
        self.dead = self.world.chance.random() < 0.5
        self._go_on()

    def _go_on(self) -> None:
        if self.identity is not None:
            self.expected, self.identity = self.identity, None
            self.sequences.clear()
            self._next()

    # ---- ending

    def _decide(self, *, committed: bool) -> None:
        assert self.identity is not None
        self.ending = EndTransaction(self.name, *self.identity, committed, self.v2)
        self._end(self.ending)

    def _end(self, event: EndTransaction) -> None:
        token = self.token if self.kept is None else self.kept
        wrote = self.written or self.kept is not None

        def answered(result: Any) -> None:
            if self.ending is not event:
                return
            if isinstance(result, KafkaError):
                if not result.retriable:
                    self._go_on_or_die()
                return
            if wrote:
                self.world.promise(token, event.committed)
            if self.v2:
                self.identity = result.producer_id, result.producer_epoch
                self.world.grant(self.number, self.identity)
                self.sequences.clear()
            elif self.unanswered:
                # Nobody knows which of them will arrive: an old client needs another epoch.
                self._go_on()
            self._next()

        self._ask(event, answered, repeatable=self.v2)

    def _next(self) -> None:
        self.ending = self.kept = None
        self.transactions += 1
        self.written = 0
        self.failed = False
        self.unanswered.clear()

    def _ask(self, event: Any, answered: Reply, *, repeatable: bool) -> None:
        """Send a request; an old client's earlier one is taken off the wire first."""
        world = self.world
        mine = self.waiting = object()

        def reply(result: Any) -> None:
            if self.waiting is mine and not self.dead and world.chance.random() < 0.9:
                answered(result)

        def arrive() -> None:
            if repeatable or self.waiting is mine or self.identity is None:
                world.ask(event, lambda result: world.send(lambda: reply(result)))

        world.send(arrive, repeatable=repeatable)
