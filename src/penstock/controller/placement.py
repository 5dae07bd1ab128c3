"""Where the replicas of new partitions go: striped over racks, then over the brokers of a rack.

Racks take turns, and so do the brokers in each; both start where chance says. Brokers that are
up go first, and the first replica is always on one of them, because it will lead. Brokers in
controlled shutdown, and brokers with cordoned directories only, get nothing.
"""

from collections.abc import Iterable

from penstock.controller.image import BrokerImage
from penstock.controller.seeded_random import SeededRandom
from penstock.errors import InvalidReplicationFactor


class _Ring:
    """Brokers that take turns; each round starts one further than the last."""

    def __init__(self, brokers: list[int], chance: SeededRandom) -> None:
        self.brokers = sorted(brokers)
        self._start = chance.below(len(brokers)) if brokers else 0
        self._taken = 0
        self._round = 0

    def take(self, round_number: int) -> int | None:
        """Return the next broker that was not yet taken in this round; None if all were."""
        if not self.brokers:
            return None
        if round_number != self._round:
            self._round = round_number
            self._taken = 0
            self._start = (self._start + 1) % len(self.brokers)
        if self._taken == len(self.brokers):
            return None
        broker = self.brokers[(self._start + self._taken) % len(self.brokers)]
        self._taken += 1
        return broker


class _Rack:
    def __init__(self, brokers: list[BrokerImage], chance: SeededRandom) -> None:
        self.unfenced = _Ring([b.broker_id for b in brokers if not b.fenced], chance)
        self.fenced = _Ring([b.broker_id for b in brokers if b.fenced], chance)

    def take(self, round_number: int) -> int | None:
        found = self.unfenced.take(round_number)
        return self.fenced.take(round_number) if found is None else found


def assign_replicas(
    brokers: Iterable[BrokerImage],
    partition_count: int,
    replication_factor: int,
    chance: SeededRandom,
) -> list[list[int]]:
    """Return the replicas of each new partition, the preferred leader first."""
    usable = [broker for broker in brokers if broker.takes_replicas]
    known = sorted(usable, key=lambda broker: broker.broker_id)
    unfenced_count = sum(not broker.fenced for broker in known)
    _check(replication_factor, len(known), unfenced_count)
    if len(known) == 1:
        return [[known[0].broker_id]] * partition_count
    by_rack: dict[str, list[BrokerImage]] = {}
    for broker in known:
        # A broker without a rack shares one with all the others that have none.
        by_rack.setdefault("" if broker.rack is None else "r" + broker.rack, []).append(broker)
    racks = [_Rack(by_rack[name], chance) for name in sorted(by_rack)]
    offset = chance.below(len(racks))
    led = {broker.broker_id: 0 for broker in known if not broker.fenced}
    placed: list[list[int]] = []
    round_number = 0
    for _ in range(partition_count):
        if round_number == unfenced_count and unfenced_count > 1:
            # Every broker has led once: shuffle, or the same neighbours would follow for ever.
            chance.shuffle(racks)
            for rack in racks:
                chance.shuffle(rack.unfenced.brokers)
                chance.shuffle(rack.fenced.brokers)
            round_number = 0
        replicas = _assign_one(racks, offset % len(racks), replication_factor, round_number)
        placed.append(_leader_first(replicas, led))
        round_number += 1
        offset += 1
    return placed


def _assign_one(racks: list[_Rack], offset: int, count: int, round_number: int) -> list[int]:
    leader_rack = offset
    while (leader := racks[leader_rack].unfenced.take(round_number)) is None:
        leader_rack = (leader_rack + 1) % len(racks)
    replicas = [leader]
    position = offset
    skip: int | None = leader_rack  # this rack has a replica already; the other racks come first
    while len(replicas) < count:
        if position == skip:
            skip = None
        else:
            found = racks[position].take(round_number)
            if found is not None:
                replicas.append(found)
        position = (position + 1) % len(racks)
    return replicas


def _leader_first(replicas: list[int], led: dict[int, int]) -> list[int]:
    """Return the replicas, first the one that leads the fewest partitions so far. The turns alone
    give some brokers no leader where a rack has as many brokers as there are racks."""
    leader = min((each for each in replicas if each in led), key=led.__getitem__)
    led[leader] += 1
    return [leader, *(each for each in replicas if each != leader)]


def _check(replication_factor: int, broker_count: int, unfenced_count: int) -> None:
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {replication_factor}: it must be positive."
        )
    prefix = f"Unable to replicate the partition {replication_factor} time(s): "
    if unfenced_count == 0:
        raise InvalidReplicationFactor(
            f"{prefix}All brokers are currently fenced, or have all their log directories "
            "cordoned. Start one, or wait until it has registered."
        )
    if replication_factor > broker_count:
        raise InvalidReplicationFactor(
            f"{prefix}The target replication factor of {replication_factor} cannot be reached "
            f"because only {broker_count} broker(s) are registered. Ask for at most "
            f"{broker_count}, or add brokers."
        )
