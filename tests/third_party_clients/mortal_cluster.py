"""Three nodes and their faults: kills, pauses, restarts and, within one process, partitions."""

from collections import Counter
from pathlib import Path
from random import Random

from chaos_run import BRISK_GROUPS, COMMITS_BETWEEN_KILLS_MAX, INPUT, PIPELINES, ChaosRun

from penstock.testing import Cluster

NODES = 3
LIFE_SECONDS_MAX = 3.0  # a cluster that serves no commits meets the next fault nevertheless
AWAY_SECONDS_MAX = 1.5
SILENT_SECONDS_MAX = 3.0  # longer than a session of a broker, so that some are fenced


class MortalCluster:
    """A cluster in which one node at a time meets a fault; its data survives."""

    def __init__(self, data: Path, seed: int, *, processes: bool) -> None:
        self._chance = Random(f"{seed}/faults")
        settings = {"log.durability": self._chance.choice(["page-cache", "fsync"]), **BRISK_GROUPS}
        self._cluster = Cluster(settings, brokers=NODES, processes=processes, data=data)
        self._kinds = ["kill", "kill", "pause", "restart"]
        if not processes:
            self._kinds += ["partition", "partition"]
        self.faults: Counter[str] = Counter()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> None:
        self._cluster.start()

    def close(self) -> None:
        self._cluster.close()

    def live_and_die(self, run: ChaosRun, faults: int) -> None:
        """Let so many faults happen; at the end all nodes run."""
        while self.faults.total() < faults and not run.violations:
            commits = self._chance.randint(1, COMMITS_BETWEEN_KILLS_MAX)
            run.wait_for_commits(self._chance.choice(PIPELINES), commits, LIFE_SECONDS_MAX)
            kind = self._chance.choice(self._kinds)
            self._suffer(run, kind, self._victim())
            self.faults[kind] += 1
        self._cluster.wait_until_in_sync()

    def _victim(self) -> int:
        """Return a leader, the active controller, or any node."""
        role = self._chance.choice(["leader", "controller", "any"])
        found = None
        if role == "leader":
            found = self._cluster.leader_of(INPUT, 0)
        elif role == "controller":
            found = self._cluster.controller()
        return self._chance.randint(1, NODES) if found is None else found

    def _suffer(self, run: ChaosRun, kind: str, victim: int) -> None:
        cluster, wait = self._cluster, run.over.wait
        match kind:
            case "kill":
                cluster.kill(victim)
                wait(self._chance.uniform(0, AWAY_SECONDS_MAX))
                cluster.start(victim)
            case "pause":
                cluster.pause(victim)
                wait(self._chance.uniform(0, SILENT_SECONDS_MAX))
                cluster.resume(victim)
            case "restart":
                cluster.restart(victim)
            case "partition":
                cluster.partition({victim}, {*range(1, NODES + 1)} - {victim})
                wait(self._chance.uniform(0, SILENT_SECONDS_MAX))
                cluster.heal()
