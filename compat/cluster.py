"""Apache Kafka's own client in transactions over three nodes that fail one at a time.

The clients are those of the check `history`. The nodes meet SIGKILL, SIGSTOP and clean restarts:
leaders, followers and the active controller alike.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench import topics
from bench.cluster import NODES, SHORT, ClusterNode, ThreeNodes, three_nodes
from bench.servers import scratch
from compat.directories import ourselves
from compat.history import (
    COMMITS_BETWEEN_KILLS_MAX,
    FINISH_SECONDS_MAX,
    INPUT,
    PARTITIONS,
    PIPELINES,
    SEED,
    SETTINGS,
    Clients,
    compile_clients,
    judge,
)
from compat.report import Report
from compat.story import Story
from penstock.config.local_nodes import replication_settings

FAULTS = 100
LIFE_SECONDS_MAX = 5.0  # a cluster that serves no commits meets the next fault nevertheless
AWAY_SECONDS_MAX = 1.5
SILENT_SECONDS_MAX = 3.0  # longer than a session of a broker, so that some are fenced
REPLICATED: Mapping[str, str] = {**SETTINGS, **SHORT, **replication_settings(len(NODES))}


class Faults:
    """What happens to the nodes, by a seed."""

    def __init__(self, cluster: ThreeNodes) -> None:
        self._cluster = cluster
        self._chance = random.Random(SEED)
        self.counts: Counter[str] = Counter()

    def suffer(self) -> None:
        """Let one node meet a fault; it runs again afterwards."""
        kind = self._chance.choice(["kill", "kill", "stop", "restart"])
        node = self._victim()
        server = node.running()
        match kind:
            case "kill":
                node.kill()
                time.sleep(self._chance.uniform(0, AWAY_SECONDS_MAX))
                node.launch()
            case "stop":
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(self._chance.uniform(0, SILENT_SECONDS_MAX))
                server.process.send_signal(signal.SIGCONT)
            case "restart":
                server.stop()
                node.kill()
                node.launch()
        self.counts[kind] += 1

    def _victim(self) -> ClusterNode:
        if self._chance.random() < 0.3:
            return self._cluster.active_controller()
        return self._chance.choice(list(self._cluster.nodes))


def _live_and_die(place: Path, classes: Path) -> tuple[Story, Faults]:
    chance = random.Random(SEED)
    clients: Clients | None = None
    try:
        with three_nodes(ourselves(), place, REPLICATED) as cluster:
            bootstrap = ",".join(f"127.0.0.1:{node.ports.client}" for node in cluster.nodes)
            for name in (INPUT, *(each.outputs[0] for each in PIPELINES)):
                topics.create(bootstrap, name, PARTITIONS)
            clients = Clients(classes, bootstrap, "transactions", place / "clients.log")
            clients.story.wait_for_commits(1, FINISH_SECONDS_MAX)
            faults = Faults(cluster)
            while faults.counts.total() < FAULTS:
                faults.suffer()
                commits = chance.randint(1, COMMITS_BETWEEN_KILLS_MAX)
                clients.story.wait_for_commits(commits, LIFE_SECONDS_MAX)
            clients.finish()
    finally:
        if clients is not None:
            clients.close()
    return clients.story, faults


def check_cluster(report: Report) -> None:
    with scratch() as place:
        story, faults = _live_and_die(place, compile_clients(place))
    told = ", ".join(f"{count} x {kind}" for kind, count in sorted(faults.counts.items()))
    judge(report, story, f"{FAULTS} faults of three nodes ({told})")
