"""Three nodes, each of them broker and controller: what they do together, measured.

The questions go to each node by the raw protocol, one at a time and `STEP_SECONDS` apart: Metadata
to its clients' listener, DescribeCluster to its controllers' listener, which names the leader of
the quorum as that node knows it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bench.programs import LoadFailed
from bench.servers import (
    Ports,
    Server,
    ServerFailed,
    free_ports,
    java_class,
    kafka_server,
    launch,
    node_settings,
    penstock_command,
    properties,
)
from penstock.client.transport.connection import CannotReach, Connection
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k43_elect_leaders as k43
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages import k60_describe_cluster as k60

R = TypeVar("R")

NODES = (1, 2, 3)
CLUSTER_ID = "PTzmBSWnR0yPMdKFGPqYGw"
DIRECTORY_IDS = ("iF338ye_Ry-vUybUbDeYSA", "iNHGiD66SNimTaBl86gYYg", "ExzopxV4SZyEWGmck9k1sg")
HEAP = "-Xms256M"  # three JVMs share the machine; -Xmx stays 1 GB
STEP_SECONDS = 0.01
ANSWER_MS_MAX = 60_000
WAIT_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 330.0  # Apache Kafka waits up to 5 minutes for a controller at its stop
FORMAT_SECONDS_MAX = 120
CLEAN_CODES = (0, 128 + signal.SIGTERM)  # of Penstock, of a JVM
TOPICS, TOPIC_PARTITIONS = 10, 1000
TOPIC_TYPE, SET = 2, 0  # of IncrementalAlterConfigs
LATEST, PREFERRED = -1, 0
SESSION_MS = "broker.session.timeout.ms"
KAFKAS_SESSION_MS = "9000"
SHORT: Mapping[str, str] = {
    "controller.quorum.fetch.timeout.ms": "300",
    "controller.quorum.election.timeout.ms": "300",
    SESSION_MS: "1000",
    "broker.heartbeat.interval.ms": "200",
}


class Listener:
    """A listener that is asked again over a new connection after each failure."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: Connection | None = None

    def ask(self, message: object, expect: type[R]) -> R | None:
        """Return the answer; None from a listener that cannot be reached."""
        try:
            if self._connection is None:
                self._connection = Connection("127.0.0.1", self._port, timeout_ms=ANSWER_MS_MAX)
            return self._connection.request(message, expect)
        except CannotReach:
            self.close()
            return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ClusterNode:
    """One of the three; it may run several times on its directory."""

    def __init__(self, kind: str, node_id: int, place: Path, ports: Ports) -> None:
        self.kind, self.node_id, self.ports = kind, node_id, ports
        self.data = place / f"node-{node_id}"
        self.settings = place / f"node-{node_id}.properties"
        self.clients, self.controllers = Listener(ports.client), Listener(ports.controller)
        self.server: Server | None = None

    def format(self, settings: Mapping[str, str], controllers: str) -> None:
        self.data.mkdir()
        own = {"metrics.listener": ""} if self.kind == "penstock" else {}
        changes = {"node.id": str(self.node_id), **own, **settings}
        self.settings.write_text(properties(node_settings(self.data, self.ports, changes)))
        tool = [sys.executable, "-m", "penstock.cli.kafka", "kafka-storage"]
        if self.kind == "kafka":
            tool = java_class("kafka.tools.StorageTool")
        options = ["-t", CLUSTER_ID, "-c", str(self.settings), "--initial-controllers", controllers]
        done = subprocess.run(
            [*tool, "format", *options],
            capture_output=True,
            text=True,
            timeout=FORMAT_SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            raise ServerFailed(f"{self.data.name} is not formatted:\n{done.stdout}{done.stderr}")

    def launch(self) -> None:
        if self.kind == "kafka":
            command = kafka_server(self.settings, HEAP)
        else:
            command = penstock_command(self.data, {}, self.settings)
        self.server = launch(self.kind, self.data, self.ports.client, command)

    def running(self) -> Server:
        """Return the process. Raise LoadFailed if it has ended."""
        server = self.server
        if server is None or server.process.poll() is not None:
            tail = f":\n{server.log_tail()}" if server is not None else ""
            raise LoadFailed(f"{self.data.name} of {self.kind} has ended{tail}")
        return server

    def kill(self) -> None:
        self.disconnect()
        if self.server is not None:
            self.server.kill()
            self.server = None

    def disconnect(self) -> None:
        self.clients.close()
        self.controllers.close()

    # -- questions

    def brokers(self) -> list[int]:
        """Return the brokers that this node tells to clients."""
        got = self.clients.ask(k03.MetadataRequest(topics=[]), k03.MetadataResponse)
        return sorted(each.node_id for each in got.brokers) if got else []

    def has_leaders(self, topic: str, partitions: int) -> bool:
        """Return whether this node knows all partitions of a topic, each with a leader."""
        found = self._partitions(topic)
        return len(found) == partitions and all(
            not each.error_code and each.leader_id in NODES for each in found
        )

    def leads(self, topic: str) -> int:
        """Return the number of partitions for which this node answers as the leader."""
        described = self._partitions(topic)
        numbers = [
            k02.ListOffsetsPartition(partition_index=each.partition_index, timestamp=LATEST)
            for each in described
            if each.leader_id == self.node_id
        ]
        if not numbers:
            return 0
        wanted = k02.ListOffsetsTopic(name=topic, partitions=numbers)
        request = k02.ListOffsetsRequest(replica_id=-1, topics=[wanted])
        got = self.clients.ask(request, k02.ListOffsetsResponse)
        return sum(not each.error_code for each in got.topics[0].partitions) if got else 0

    def in_sync(self, topic: str) -> bool:
        """Return whether all replicas of a topic are in sync, as this node knows it."""
        found = self._partitions(topic)
        return bool(found) and all(len(each.isr_nodes) == len(each.replica_nodes) for each in found)

    def _partitions(self, topic: str) -> list[k03.MetadataResponsePartition]:
        wanted = k03.MetadataRequest(
            topics=[k03.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        got = self.clients.ask(wanted, k03.MetadataResponse)
        return [] if got is None or got.topics[0].error_code else got.topics[0].partitions

    def elect_preferred(self, topic: str, partitions: Iterable[int]) -> None:
        """Let the first replica of each partition lead."""
        wanted = k43.TopicPartitions(topic=topic, partitions=list(partitions))
        request = k43.ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=[wanted], timeout_ms=ANSWER_MS_MAX
        )
        self.clients.ask(request, k43.ElectLeadersResponse)

    def active_controller(self) -> int:
        """Return the leader of the quorum as this node knows it; -1 if it knows none."""
        got = self.controllers.ask(
            k60.DescribeClusterRequest(endpoint_type=2), k60.DescribeClusterResponse
        )
        return got.controller_id if got and not got.error_code else -1

    def changes(self, topic: str, retention_ms: int) -> bool:
        """Return whether a topic's setting was changed through this node."""
        config = k44.AlterableConfig(
            name="retention.ms", config_operation=SET, value=str(retention_ms)
        )
        resource = k44.AlterConfigsResource(
            resource_type=TOPIC_TYPE, resource_name=topic, configs=[config]
        )
        request = k44.IncrementalAlterConfigsRequest(resources=[resource])
        got = self.clients.ask(request, k44.IncrementalAlterConfigsResponse)
        return got is not None and not got.responses[0].error_code

    def serves(self, topic: str, partition: int) -> bool:
        """Return whether this node answers as the leader of a partition."""
        number = k02.ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
        wanted = k02.ListOffsetsTopic(name=topic, partitions=[number])
        request = k02.ListOffsetsRequest(replica_id=-1, topics=[wanted])
        got = self.clients.ask(request, k02.ListOffsetsResponse)
        return got is not None and not got.topics[0].partitions[0].error_code


class ThreeNodes:
    """A cluster, and what earlier rows left in it."""

    def __init__(self, nodes: Sequence[ClusterNode], settings: Mapping[str, str]) -> None:
        self.nodes = nodes
        self.session_s = int(settings.get(SESSION_MS, KAFKAS_SESSION_MS)) / 1000
        self.topics: list[str] = []
        self.partitions = 0  # of each topic

    def wait(
        self, condition: Callable[[], bool], wanted: str, without: ClusterNode | None = None
    ) -> float:
        """Wait while the nodes run; return the time on the monotonic clock."""
        until = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            if time.monotonic() > until:
                raise LoadFailed(f"{wanted}: not within {WAIT_SECONDS_MAX:.0f} s")
            for node in self.nodes:
                if node is not without:
                    node.running()
            time.sleep(STEP_SECONDS)
        return time.monotonic()

    def start(self) -> None:
        """Launch the nodes that do not run; wait until all of them tell clients of all three."""
        for node in self.nodes:
            if node.server is None:
                node.launch()
        self.wait(lambda: all(each.brokers() == [*NODES] for each in self.nodes), "three brokers")

    def wait_for_leaders(self) -> float:
        """Wait until each node knows a leader of every partition; return the time."""
        missing = [(node, topic) for topic in self.topics for node in self.nodes]

        def complete() -> bool:
            while missing and missing[-1][0].has_leaders(missing[-1][1], self.partitions):
                missing.pop()
            return not missing

        return self.wait(complete, "a leader for every partition")

    def create(self, topic: k19.CreatableTopic, node: ClusterNode) -> None:
        request = k19.CreateTopicsRequest(topics=[topic])
        got = node.clients.ask(request, k19.CreateTopicsResponse)
        if got is None or got.topics[0].error_code:
            raise LoadFailed(f"{topic.name} was not created: {got}")
        self.topics.append(topic.name)

    def fill(self, quick: bool) -> float:
        """Create the many partitions, unless they are there; return the seconds it took."""
        self.start()
        if self.topics:
            return 0.0
        self.partitions = TOPIC_PARTITIONS // (10 if quick else 1)
        os.sync()
        began = time.monotonic()
        for number in range(TOPICS):
            topic = k19.CreatableTopic(
                name=f"cluster-{number}", num_partitions=self.partitions, replication_factor=1
            )
            self.create(topic, self.nodes[number % len(NODES)])
        return self.wait_for_leaders() - began

    def active_controller(self) -> ClusterNode:
        """Wait until all nodes name the same controller; return it."""

        named: set[int] = set()

        def agreed() -> bool:
            named.clear()
            named.update(node.active_controller() for node in self.nodes)
            return len(named) == 1 and named <= {*NODES}

        self.wait(agreed, "one active controller")
        return self.nodes[NODES.index(named.pop())]

    def stop(self) -> float:
        """Stop the three cleanly, all at once; return the seconds it took. One after another, the
        last one would surely find no controller to ask."""
        began = time.monotonic()
        servers = [node.running() for node in self.nodes]
        for server in servers:
            server.process.send_signal(signal.SIGTERM)
        for server in servers:
            code = server.process.wait(STOP_SECONDS_MAX)
            if code not in CLEAN_CODES:
                raise LoadFailed(f"exit code {code} of a clean stop:\n{server.log_tail()}")
        for node in self.nodes:
            node.kill()
        return time.monotonic() - began


@contextmanager
def three_nodes(kind: str, place: Path, changes: Mapping[str, str]) -> Iterator[ThreeNodes]:
    """A cluster for the length of a block; its end is SIGKILL, its directory is thrown away."""
    ports = free_ports(2 * len(NODES))
    nodes = [ClusterNode(kind, each, place, Ports(ports.pop(), ports.pop())) for each in NODES]
    addresses = [f"127.0.0.1:{node.ports.controller}" for node in nodes]
    controllers = ",".join(
        f"{node.node_id}@{address}:{directory}"
        for node, address, directory in zip(nodes, addresses, DIRECTORY_IDS, strict=True)
    )
    settings = {"controller.quorum.bootstrap.servers": ",".join(addresses), **changes}
    try:
        for node in nodes:
            node.format(settings, controllers)
        cluster = ThreeNodes(nodes, settings)
        cluster.start()
        yield cluster
    finally:
        for node in nodes:
            node.kill()
