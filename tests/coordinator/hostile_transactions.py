"""Peers that ask a transaction coordinator with any value the wire allows."""

from typing import Any

from hostile_world import HostileWorld

from penstock.coordinator.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactionalIds,
    MarkersWritten,
    ProducerIdAndEpoch,
    VerifyPartitions,
    WriteMarkers,
)
from penstock.coordinator.transactions.machine import TransactionCoordinator
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.model import TopicPartition
from penstock.wire.records.coordinator import TRANSACTION_RECORDS

NAMES = ("one", "one", "two", "\x00 é")
EPOCHS = (-(2**15), -1, 0, 1, 2**15 - 2, 2**15 - 1)
IDS = (-(2**63), -1, 0, 1000, 2**63 - 1)
PARTITIONS = tuple(
    TopicPartition(*each) for each in (("a", 0), ("a", -1), ("", 2**31 - 1), ("b", -(2**31)))
)
STEPS = 80
DAY_MS = 86_400_000


class HostileTransactions(HostileWorld):
    def __init__(self, seed: int) -> None:
        self.producers: list[ProducerIdAndEpoch] = [ProducerIdAndEpoch(1000, 0)]
        self.sent: list[WriteMarkers] = []
        settings = TransactionSettings(two_phase_commit=True)
        super().__init__(
            seed, lambda: TransactionCoordinator(settings, 7), TRANSACTION_RECORDS, self.send
        )

    def send(self, effect: Any) -> None:
        if isinstance(effect, WriteMarkers):
            self.sent.append(effect)

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        self.log.refuses = False
        self.time.advance(30 * DAY_MS)
        self.restart()

    def step(self) -> None:
        roll = self.chance.random()
        if roll < 0.7:
            self.ask(self.event(), self.heard)
        elif roll < 0.8 and self.sent:
            sent = self.chance.choice(self.sent)
            self.ask(MarkersWritten(sent.transactional_id, sent.producer_id, sent.producer_epoch))
        elif roll < 0.92:
            self.time.advance(self.chance.choice((0, 500, 60_000, 1_000_000, 8 * DAY_MS)))
        elif roll < 0.96:
            self.log.refuses = not self.log.refuses
        else:
            self.restart()

    def heard(self, answer: Any) -> None:
        if isinstance(answer, ProducerIdAndEpoch):
            self.producers.append(answer)

    def event(self) -> Any:
        chance = self.chance
        name = chance.choice(NAMES)
        known = chance.choice(self.producers[-4:])
        producer_id, epoch = known.producer_id, known.producer_epoch
        if chance.random() < 0.25:
            producer_id, epoch = chance.choice(IDS), chance.choice(EPOCHS)
        places = tuple(chance.sample(PARTITIONS, chance.randint(0, 3)))
        drawn = chance.choice((None, *range(2_000, 2_010)))
        match chance.randrange(7):
            case 0 | 1:
                goes_on = chance.random() < 0.4
                return InitProducer(
                    name,
                    chance.choice((60_000, 1, 0, -1, 2**31 - 1, -(2**31))),
                    producer_id if goes_on else -1,
                    epoch if goes_on else -1,
                    two_phase_commit=chance.random() < 0.2,
                    keep_prepared=chance.random() < 0.2,
                    new_producer_id=drawn,
                )
            case 2 | 3:
                return AddPartitions(name, producer_id, epoch, places, chance.random() < 0.5)
            case 4:
                return VerifyPartitions(name, producer_id, epoch, places)
            case 5:
                commits, v2 = chance.random() < 0.5, chance.random() < 0.6
                return EndTransaction(name, producer_id, epoch, commits, v2, drawn)
            case _:
                longer_ms = chance.choice((-1, 0, 2**63 - 1))
                return chance.choice(
                    (DescribeTransaction(name), ListTransactionalIds(longer_than_ms=longer_ms))
                )
