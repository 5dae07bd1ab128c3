"""Coordinator, leaders and clients at random: all or nothing, whatever is late, lost or repeated.

PENSTOCK_SIM_RUNS says how many worlds, PENSTOCK_SIM_SEED where to begin.
"""

import pytest
from txn_clients import Client
from txn_world import NAMES, PLACES, TIMEOUT_MS, World

from depth import seeds

SEEDS = seeds(300, few=25)
STEPS = 800


class Life:
    """A world and the clients that come and go in it."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.clients: list[Client] = []
        chance = self.world.chance
        self.kinds = {name: (chance.random() < 0.7, chance.random() < 0.4) for name in NAMES}
        for name in NAMES:
            self.come(name)

    def come(self, name: str) -> None:
        v2, two_phase = self.kinds[name]
        number = len(self.clients)
        self.clients.append(Client(self.world, number, name, v2=v2, two_phase=two_phase and v2))

    def live(self) -> None:
        world, chance = self.world, self.world.chance
        for _ in range(STEPS):
            match chance.choices(range(6), weights=(40, 140, 50, 5, 1, 1))[0]:
                case 0:
                    chance.choice(self.clients).act()
                case 1:
                    world.deliver_one()
                case 2:
                    world.commit()
                case 3:
                    world.time.advance(chance.choice((1, 50, TIMEOUT_MS // 2)))
                case 4:
                    world.crash()
                case 5:
                    # A client dies, or is taken for dead and goes on beside the new one.
                    old = chance.choice(self.clients)
                    old.dead = old.dead or chance.random() < 0.5
                    self.come(old.name)
            world.check()

    def settle(self) -> None:
        """Nobody begins anything; what is open times out, and what is prepared is ended."""
        world = self.world
        for client in self.clients:
            client.dead = True
        for name in NAMES:
            closing = Client(world, len(self.clients), name, v2=True, two_phase=False)
            self.clients.append(closing)
            for _ in range(200):
                if closing.identity is not None:
                    break
                closing.act()
                self._quiet()
            assert closing.identity is not None, f"{name} cannot be taken over"
        self._quiet()

    def _quiet(self) -> None:
        world = self.world
        for _ in range(10_000):
            world.commit()
            if not world.network:
                break
            deliver, _ = world.network.pop(0)
            deliver()
        world.time.advance(10)
        world.check()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_transaction_is_everywhere_or_nowhere(seed: int) -> None:
    life = Life(seed)
    life.live()
    life.settle()
    for place in PLACES:
        assert life.world.places[place].open == [], f"something hangs in {place}"
    for token, committed in life.world.promised.items():
        assert life.world.fates.get(token, committed) == committed


def test_the_worlds_do_what_they_are_about() -> None:
    """Commits, aborts, promises kept: a model in which nothing happens proves nothing."""
    fates: list[bool] = []
    promises = 0
    for seed in range(20):
        life = Life(seed)
        life.live()
        life.settle()
        fates += life.world.fates.values()
        promises += len(life.world.promised)
    assert fates.count(True) > 50
    assert fates.count(False) > 50
    assert promises > 50
