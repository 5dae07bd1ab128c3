"""Random lives of a leader beside a plain model, which keeps every fetch and looks at all of them.

The model has Kafka's semantics literally: each fetch of a session updates each partition.
"""

import random
from dataclasses import dataclass, field

import pytest
from replica_driver import LAG_MS

from depth import seeds
from penstock.errors import InvalidUpdateVersion, NotLeaderOrFollower, OperationNotAttempted
from penstock.replication.follower_progress import FetchContact
from penstock.replication.isr_proposal import IsrProposal
from penstock.replication.leader import PartitionLeader

REPLICAS = (1, 2, 3, 4)
STEPS = 300


@dataclass
class ModelFollower:
    """A follower as Kafka's leader sees it."""

    end: int = -1
    epoch: int | None = None
    fetched_ms: float = float("-inf")
    caught_up_ms: float = float("-inf")
    leader_end: int = -1

    def fetch(self, offset: int, leader_end: int, now: float) -> None:
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now)
        elif offset >= self.leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end, self.fetched_ms = offset, now
        self.leader_end = max(self.leader_end, leader_end)

    def is_caught_up(self, leader_end: int, now: float) -> bool:
        return self.end == leader_end or now - self.caught_up_ms <= LAG_MS


@dataclass
class ModelLeader:
    """A leader by the rules, without care for speed."""

    isr: frozenset[int]
    watermark: int
    end: int
    counted: int
    min_insync: int
    epochs: dict[int, int]  # registered; no entry for fenced brokers
    pending: frozenset[int] | None = None
    followers: dict[int, ModelFollower] = field(default_factory=dict)
    epoch_start: int = 0

    @property
    def maximal(self) -> frozenset[int]:
        return self.isr | (self.pending or frozenset())

    def may_join(self, replica: int) -> bool:
        return replica in self.epochs and self.followers[replica].epoch == self.epochs[replica]

    def move(self, now: float) -> None:
        if len(self.isr) < self.min_insync:
            return
        ends = [self.counted]
        for replica, follower in self.followers.items():
            waited_for = follower.is_caught_up(self.end, now) and self.may_join(replica)
            if replica in self.maximal or waited_for:
                ends.append(follower.end)
        self.watermark = max(self.watermark, min(ends))


class LeaderLife:
    """The leader and its model through the same random events."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now = 5000.0
        self.epoch, self.partition_epoch = 1, 1
        self.proposal: IsrProposal | None = None
        self.epochs = dict.fromkeys(REPLICAS[1:], 1)
        self.model = ModelLeader(frozenset((1, 2)), 0, 0, 0, self.dice.choice((1, 2, 3)), {})
        self.model.epochs = self.epochs
        self.contacts = {each: FetchContact(self.now) for each in REPLICAS[1:]}
        self.asked = dict.fromkeys(REPLICAS[1:], -1)  # the offset in the follower's session
        self.dirty = dict.fromkeys(REPLICAS[1:], False)
        self.leader = PartitionLeader(
            1,
            0,
            (),
            0,
            is_eligible=lambda replica, epoch: self.epochs.get(replica) == epoch,
            live_epoch=lambda replica: self.epochs.get(replica, -1),
            lag_ms_max=LAG_MS,
        )
        self.leader.require(self.model.min_insync, len(REPLICAS))
        self.begin()

    def begin(self) -> None:
        known = self.leader.leading
        isr = tuple(sorted(self.model.isr))
        self.leader.begin(self.epoch, self.partition_epoch, isr, REPLICAS, self.model.end, self.now)
        for replica in REPLICAS[1:]:
            follower = self.model.followers.get(replica) or ModelFollower()
            if not known:
                follower = ModelFollower()
            in_sync = replica in self.model.isr
            follower.fetched_ms = follower.caught_up_ms = self.now if in_sync else float("-inf")
            if known:
                follower.leader_end = self.model.end
            self.model.followers[replica] = follower
            self.asked[replica], self.dirty[replica] = -1, False
        self.model.epoch_start = self.model.end
        self.model.pending = self.proposal = None
        self.leader.advance(self.model.counted, self.now)
        self.model.move(self.now)

    def act(self) -> None:
        frequent = [self.append, self.fetch, self.fetch, self.fetch, self.sync, self.join]
        rare = [self.shrink, self.accept, self.reject, self.image, self.register, self.elect]
        self.now += self.dice.choice((0, 1, 10, 40))
        self.dice.choice((*frequent, *frequent, *rare))()
        self.check()

    def append(self) -> None:
        self.model.end += self.dice.randint(1, 3)
        self.leader.appended(self.model.end)
        for replica, offset in self.asked.items():
            self.dirty[replica] = offset >= 0

    def sync(self) -> None:
        self.model.counted = self.dice.randint(self.model.counted, self.model.end)
        self.leader.advance(self.model.counted, self.now)
        self.model.move(self.now)

    def fetch(self) -> None:
        """Let a fetch arrive that names the partition, or finds it as it was."""
        replica = self.dice.choice(REPLICAS[1:])
        named = self.asked[replica] < 0 or self.dice.random() < 0.6
        if named:
            first = max(0, self.asked[replica])
            self.asked[replica] = self.dice.choice(
                (first, self.dice.randint(min(first, self.model.end), self.model.end))
            )
        offset = self.asked[replica]
        epoch = self.epochs.get(replica, 1)
        self.contacts[replica].arrive(self.now)
        follower = self.model.followers[replica]
        follower.fetch(offset, self.model.end, self.now)
        if named or self.dirty[replica] or offset < self.model.end:
            follower.epoch = epoch
            self.leader.fetched(replica, epoch, offset, 0, self.now, self.contacts[replica])
            self.dirty[replica] = False
            self.model.move(self.now)

    def stale_fetch(self, replica: int) -> None:
        with pytest.raises(NotLeaderOrFollower):
            self.leader.fetched(
                replica, self.epochs[replica] - 1, 0, 0, self.now, self.contacts[replica]
            )

    def join(self) -> None:
        replica = self.dice.choice(REPLICAS[1:])
        follower, model = self.model.followers[replica], self.model
        expected = (
            model.pending is None
            and replica not in model.isr
            and model.may_join(replica)
            and follower.end >= max(model.watermark, model.epoch_start)
        )
        proposal = self.leader.joining(replica, self.now)
        assert (proposal is not None) == expected
        if proposal is not None:
            self.proposal, model.pending = proposal, model.isr | {replica}

    def shrink(self) -> None:
        model = self.model
        lagging = {
            each
            for each in model.isr - {1}
            if not model.followers[each].is_caught_up(model.end, self.now)
        }
        proposal = self.leader.lagging(self.now, LAG_MS)
        assert (proposal is not None) == (bool(lagging) and model.pending is None)
        if proposal is not None:
            self.proposal, model.pending = proposal, model.isr - lagging

    def accept(self) -> None:
        if self.proposal is None or self.model.pending is None:
            return
        self.partition_epoch += 1
        self.model.isr, self.model.pending = self.model.pending, None
        isr = tuple(sorted(self.model.isr))
        self.leader.accepted(self.proposal, self.epoch, self.partition_epoch, isr)
        self.leader.advance(self.model.counted, self.now)
        self.model.move(self.now)

    def reject(self) -> None:
        if self.proposal is None or self.model.pending is None:
            return
        not_made = self.dice.random() < 0.5
        error = OperationNotAttempted() if not_made else InvalidUpdateVersion()
        assert not self.leader.rejected(self.proposal, error)
        if not_made:
            self.model.pending = None
            self.leader.advance(self.model.counted, self.now)
            self.model.move(self.now)

    def image(self) -> None:
        self.partition_epoch += 1
        others = [each for each in REPLICAS[1:] if self.dice.random() < 0.5]
        self.model.isr, self.model.pending = frozenset((1, *others)), None
        isr = tuple(sorted(self.model.isr))
        self.leader.update(self.partition_epoch, isr, REPLICAS, self.now)
        self.model.move(self.now)

    def register(self) -> None:
        replica = self.dice.choice(REPLICAS[1:])
        if self.epochs.pop(replica, None) is None or self.dice.random() < 0.5:
            self.epochs[replica] = self.now.__trunc__()
            if self.model.followers[replica].epoch is not None:
                self.stale_fetch(replica)

    def elect(self) -> None:
        self.epoch += 1
        self.partition_epoch += 1
        if self.dice.random() < 0.5:
            self.leader.follow(self.epoch, self.partition_epoch, REPLICAS)
            self.epoch += 1
            self.partition_epoch += 1
        self.begin()

    def check(self) -> None:
        model, leader = self.model, self.leader
        assert leader.high_watermark == model.watermark
        assert set(leader.isr) == model.isr
        assert set(leader.maximal_isr) == model.maximal
        for replica, follower in model.followers.items():
            known = leader.followers[replica]
            assert known.end == follower.end
            assert known.caught_up_ms == follower.caught_up_ms


@pytest.mark.parametrize("seed", seeds(whole=400, few=30))
def test_a_leader_does_as_the_model(seed: int) -> None:
    life = LeaderLife(seed)
    for _ in range(STEPS):
        life.act()
