"""A partition that moves between three directories while disks fail, vanish and come back, and the
node dies: what is served is never older than what was acknowledged, and in the end all is there."""

import random

import pytest
from move_faults import UNSYNCED, Arm
from moving_life import Life, check, names, served
from troubled_disks import Died, Mode, Trouble, heal, take_away, trouble

from depth import seeds
from penstock.broker.moves import move
from penstock.broker.storage.placements import WRITE_DELAY_MS
from penstock.log import future_log

ROOTS = ("one", "two", "three")
SETTINGS = {"metadata.log.dir": "meta", "log.dirs": ",".join(ROOTS)}
SEEDS = seeds(40, few=4, first=0)
CALLS = 34  # about so many are made in the last steps
ROUNDS = 6


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Arm:
    return Arm(monkeypatch)


def start(life: Life, away: list[str], *, power: bool) -> None:
    life.bench.world.kill()
    world = life.bench.world
    disks = world.disks_after_power_loss() if power else world.disks_after_kill()
    for root, disk in disks.items():
        heal(disk)
        if root in away:
            take_away(disk)
    life.restart(disks)


def one_round(life: Life, arm: Arm, dice: random.Random) -> None:
    what = arm.trouble = Trouble(dice.randrange(CALLS), dice.choice(list(Mode)))
    for root in ROOTS:
        directory = life.bench.broker.replicas.directory_at(root)
        if directory is not None and not directory.failed:
            trouble(life.bench.world.disks[root], what)
    trouble(life.bench.world.disks["meta"], what)
    try:
        for _ in range(dice.randrange(1, 6)):
            if served(life):
                life.ask(dice.choice(ROOTS))
            life.write(dice.randrange(1, 4))
            life.bench.settle(dice.choice((1, 10, 60, 300, 700)))
        if served(life):
            check(life, "before the end")
    except Died:
        pass
    arm.trouble = None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_of_moves_and_failures_loses_nothing_seed(arm: Arm, seed: int) -> None:
    dice = random.Random(seed)
    synced = seed % 2 == 0
    life = Life(seed, SETTINGS | ({} if synced else UNSYNCED))
    life.write(8 if synced else 2)
    life.bench.settle(dice.choice((1, 2 * WRITE_DELAY_MS)))
    for place in range(ROUNDS):
        one_round(life, arm, dice)
        away = [root for root in ROOTS if dice.random() < 0.3][:2]
        start(life, away, power=dice.random() < 0.5 and synced)
        if served(life):
            check(life, (seed, place, away))
    start(life, [], power=False)
    assert served(life), seed
    check(life, seed)
    life.write(2)
    check(life, seed)
    life.bench.settle(20_000)
    found = sorted(name for listed in names(life).values() for name in listed)
    assert found == ["t-0"], seed
