"""Who is killed, when, and how: all of it by chance, and chance by a seed."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from chaos.moments import Phase
from chaos.spark_process import Member, Role, SparkProcess, kill_all


class Victim(StrEnum):
    WORKER = "worker"
    WORKERS = "all workers"
    DAEMON = "daemon"
    PLANNER = "planner"
    COMMITTER = "committer"
    READER = "reader"
    NODE = "node"
    DRIVER = "driver"  # with all that it has started
    DRIVER_ALONE = "driver's Python alone"
    JAVA_ALONE = "driver's Java alone"
    OLDER_DRIVER = "driver, frozen until another has taken over"

    @property
    def ends_driver(self) -> bool:
        return self in (
            Victim.DRIVER,
            Victim.DRIVER_ALONE,
            Victim.JAVA_ALONE,
            Victim.OLDER_DRIVER,
        )


# A driver costs as much time as twenty of the others.
WEIGHTS = {
    Victim.WORKER: 24,
    Victim.WORKERS: 4,
    Victim.DAEMON: 8,
    Victim.PLANNER: 6,
    Victim.COMMITTER: 16,
    Victim.READER: 3,
    Victim.NODE: 26,
    Victim.DRIVER: 4,
    Victim.DRIVER_ALONE: 2,
    Victim.JAVA_ALONE: 2,
    Victim.OLDER_DRIVER: 2,
}
EVERYBODY = tuple(WEIGHTS)
WITHOUT_DRIVERS = tuple(each for each in WEIGHTS if not each.ends_driver)
# What to wait for before chance adds its delay; None is any time at all.
MOMENTS: dict[Phase | None, int] = {
    Phase.BEGUN: 20,
    Phase.WRITING: 25,
    Phase.DECIDED: 40,
    Phase.BETWEEN: 5,
    None: 10,
}
# Who has something to do in a phase is killed more often in it.
AT_WORK: dict[Phase | None, dict[Victim, int]] = {
    Phase.BEGUN: {Victim.PLANNER: 24},
    Phase.WRITING: {Victim.WORKER: 40},
    Phase.DECIDED: {Victim.COMMITTER: 40},
}
DELAYS_MAX_MS = (10, 60, 300)
ANY_TIME_MS_MAX = 1_500
# How often the node dies together with somebody else.
NODE_TOO = 0.08
_PROCESSES = {
    Victim.WORKER: Role.WORKER,
    Victim.WORKERS: Role.WORKER,
    Victim.DAEMON: Role.DAEMON,
    Victim.PLANNER: Role.PLANNER,
    Victim.COMMITTER: Role.COMMITTER,
    Victim.READER: Role.READER,
}


@dataclass(frozen=True, slots=True)
class Aim:
    victim: Victim
    moment: Phase | None
    delay_ms: float
    node_too: bool


@dataclass(frozen=True, slots=True)
class Kill:
    victim: Victim
    phase: Phase  # of the batch, as it was seen
    batch: int

    @property
    def in_flight(self) -> bool:
        return self.phase is not Phase.BETWEEN


def take_aim(chance: Random, victims: Sequence[Victim]) -> Aim:
    (moment,) = chance.choices(list(MOMENTS), list(MOMENTS.values()))
    weights = {**WEIGHTS, **AT_WORK.get(moment, {})}
    (victim,) = chance.choices(victims, [weights[each] for each in victims])
    longest = ANY_TIME_MS_MAX if moment is None else chance.choice(DELAYS_MAX_MS)
    node_too = chance.random() < NODE_TOO and victim is not Victim.NODE
    return Aim(victim, moment, chance.uniform(0, longest), node_too)


def targets(driver: SparkProcess, victim: Victim, chance: Random) -> list[Member]:
    """The processes to kill: one of its kind, or all. None, if there is none at the moment."""
    members = driver.members()
    match victim:
        case Victim.DRIVER:
            return members
        case Victim.DRIVER_ALONE:
            return [each for each in members if each.role is Role.DRIVER]
        case Victim.JAVA_ALONE:
            return [each for each in members if each.role is Role.JAVA]
        case _:
            role = _PROCESSES[victim]
    found = [each for each in members if each.role is role]
    if victim is Victim.WORKERS or not found:
        return found
    return [chance.choice(found)]


def freeze(driver: SparkProcess) -> list[Member]:
    """Java first: it would take workers that do not answer for dead ones."""
    members = sorted(driver.members(), key=lambda each: each.role is not Role.JAVA)
    for each in members:
        each.send(signal.SIGSTOP)
    return members


def thaw(members: list[Member]) -> None:
    for each in reversed(members):
        each.send(signal.SIGCONT)


def kill_orphans(driver: SparkProcess) -> None:
    kill_all([each for each in driver.members() if each.orphan and each.role is Role.WORKER])
