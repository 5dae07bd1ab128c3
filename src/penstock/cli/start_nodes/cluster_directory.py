"""The directory of a cluster on this machine: a properties file and a data directory for each node.

A first start chooses free ports and writes node-1.properties and so on, with which each node can be
started alone. `unformatted.properties` stands beside them until all directories are formatted: no
node has run before that, so an interrupted first start may format again. Later starts format
nothing: a controller must never forget its votes.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from penstock.cli.terminal.output import CommandFailed, reason_of
from penstock.config.listeners import Address, VoterAddress
from penstock.config.load import ConfigText, load
from penstock.config.local_nodes import LocalNode, membership_settings, replication_settings
from penstock.config.properties import PropertiesError, parse_properties
from penstock.config.single_node import SINGLE_NODE_SETTINGS

HOST = "127.0.0.1"
CLIENT_PORT_MIN, CONTROLLER_PORT_MIN, METRICS_PORT_MIN = 9092, 9192, 9404
PORTS_TRIED_MAX = 1_000
UNFORMATTED = "unformatted.properties"
META_PROPERTIES = "meta.properties"
CLUSTER_ID_KEY, CONTROLLERS_KEY = "cluster.id", "initial.controllers"
CLIENT_PORTS_KEY, CONTROLLER_PORTS_KEY = "client.ports", "controller.ports"
METRICS_PORTS_KEY = "metrics.ports"

_ABOUT = """\
# Node {node_id} of {count} on this machine: `penstock start --nodes {count}` has made this file and
# starts all of them. Alone: penstock start --config {path}
# The keys are Kafka's; `penstock config explain KEY` tells what one means and does here.
"""
_REPLICAS = """\
# New topics, and the cluster's own, have replicas on {factor} nodes. A record with acks=all is
# acknowledged when all replicas in sync have it, and rejected below {in_sync} in sync.
"""


class ClusterNodeFile(NamedTuple):
    """A node of the directory, and the file with its settings."""

    node_id: int
    path: str


def node_files(data: Path) -> list[ClusterNodeFile]:
    """Return the nodes of a directory, none if it holds no cluster of several."""
    found: list[ClusterNodeFile] = []
    while (path := data / f"node-{len(found) + 1}.properties").exists():
        found.append(ClusterNodeFile(len(found) + 1, str(path)))
    return found


def open_cluster(data: Path, count: int, cluster_id: str | None) -> list[ClusterNodeFile]:
    """Return the nodes of the directory; make them on a first start. Raise CommandFailed if the
    directory holds something else."""
    try:
        if (data / UNFORMATTED).exists():
            _check_cluster(data, data / UNFORMATTED, cluster_id)
            return _finish(data, count)
        found = node_files(data)
        if not found:
            return _begin(data, count, cluster_id)
    except OSError as problem:
        raise CommandFailed(
            f"the nodes cannot start: {reason_of(problem)} ({problem.filename or data}). Choose "
            "another directory with --data DIR"
        ) from None
    _check_count(data, len(found), count)
    for each in found:
        _check_directory(data, each)
        meta = data / f"node-{each.node_id}" / META_PROPERTIES
        if meta.exists():
            _check_cluster(data, meta, cluster_id)
    return found


# -- a first start


def _begin(data: Path, count: int, cluster_id: str | None) -> list[ClusterNodeFile]:
    if (data / META_PROPERTIES).exists():
        raise CommandFailed(
            f"{data} holds the data of one node: start it without --nodes, or choose another "
            "directory with --data DIR"
        )
    for number in range(1, count + 1):
        if (data / f"node-{number}").exists():
            raise CommandFailed(
                f"{data / f'node-{number}'} exists, but {data}/node-1.properties does not: restore "
                "the file from a copy, or choose another directory with --data DIR"
            )
    formatting = import_module("penstock.formatting")
    clients = _free_ports(CLIENT_PORT_MIN, count)
    controllers = _free_ports(CONTROLLER_PORT_MIN, count)
    voters = [
        VoterAddress(number, Address(HOST, port)) for number, port in enumerate(controllers, 1)
    ]
    plan = {
        CLUSTER_ID_KEY: cluster_id or formatting.new_cluster_id(),
        CONTROLLERS_KEY: formatting.initial_controllers(voters),
        CONTROLLER_PORTS_KEY: _joined(controllers),
        CLIENT_PORTS_KEY: _joined(clients),
        METRICS_PORTS_KEY: _joined(_free_ports(METRICS_PORT_MIN, count)),
    }
    data.mkdir(parents=True, exist_ok=True)
    _write(data / UNFORMATTED, _lines(plan))
    return _finish(data, count)


def _joined(ports: Sequence[int]) -> str:
    return ",".join(map(str, ports))


def _free_ports(lowest: int, count: int) -> list[int]:
    """Return the first free ports upwards."""
    found: list[int] = []
    for port in range(lowest, lowest + PORTS_TRIED_MAX):
        if _is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise CommandFailed(f"no {count} ports of {HOST} are free from {lowest} upwards")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _settings_text(
    data: Path, nodes: Sequence[LocalNode], node: LocalNode, metrics_port: int
) -> str:
    path = data / f"node-{node.node_id}.properties"
    bootstrap = ",".join(str(each.controller) for each in nodes)
    own: Mapping[str, str] = {
        **membership_settings(node),
        "controller.quorum.bootstrap.servers": bootstrap,
        "metrics.listener": f"{HOST}:{metrics_port}",
        "log.dirs": _directory(data, node.node_id),
    }
    replication = replication_settings(len(nodes))
    replicas = _REPLICAS.format(
        factor=replication["default.replication.factor"],
        in_sync=replication["min.insync.replicas"],
    )
    common = {
        key: text
        for key, text in SINGLE_NODE_SETTINGS.items()
        if key not in own and key not in replication
    }
    about = _ABOUT.format(node_id=node.node_id, count=len(nodes), path=path)
    return about + _lines(own) + replicas + _lines(replication) + _lines(common)


def _lines(settings: Mapping[str, str]) -> str:
    escaped = ((key, text.replace("\\", "\\\\")) for key, text in settings.items())
    return "".join(f"{key}={text}\n" for key, text in escaped)


def _write(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    with suppress(OSError), fresh.open("rb") as written:
        os.fsync(written.fileno())
    fresh.rename(path)


def _finish(data: Path, count: int) -> list[ClusterNodeFile]:
    """Write the files of the nodes, and format what is not formatted yet."""
    plan = _read(data / UNFORMATTED)
    ports = [
        [int(port) for port in plan[key].split(",")]
        for key in (CLIENT_PORTS_KEY, CONTROLLER_PORTS_KEY, METRICS_PORTS_KEY)
    ]
    clients, controllers, metrics = ports
    _check_count(data, len(clients), count)
    nodes = [
        LocalNode(number, Address(HOST, client), Address(HOST, controller))
        for number, (client, controller) in enumerate(zip(clients, controllers, strict=True), 1)
    ]
    for node, port in zip(nodes, metrics, strict=True):
        text = _settings_text(data, nodes, node, port)
        _write(data / f"node-{node.node_id}.properties", text)
        _format(node.node_id, text, plan)
    (data / UNFORMATTED).unlink()
    return node_files(data)


def _format(node_id: int, text: str, plan: Mapping[str, str]) -> None:
    formatting = import_module("penstock.formatting")
    config = load([ConfigText(f"node {node_id}", text)]).config
    controllers = plan[CONTROLLERS_KEY]
    try:
        formatting.format_directories(
            config, plan[CLUSTER_ID_KEY], initial_controllers=controllers, skip_formatted=True
        )
    except formatting.FormatRejected as rejected:
        raise CommandFailed(f"node {node_id} cannot be formatted: {rejected}") from None


# -- a later start


def _check_count(data: Path, there: int, wanted: int) -> None:
    if there != wanted:
        raise CommandFailed(
            f"{data} holds a cluster of {there} nodes: start it with --nodes {there}, or choose "
            "another directory with --data DIR. A broker more joins with a file of its own: see "
            "docs/guides/cluster.md"
        )


def _check_directory(data: Path, node: ClusterNodeFile) -> None:
    """Raise CommandFailed if a file names another data directory than the one beside it."""
    named = _read(Path(node.path)).get("log.dirs", "")
    if named != _directory(data, node.node_id):
        raise CommandFailed(
            f"{node.path} names log.dirs={named}, and the node's directory is "
            f"{_directory(data, node.node_id)}. If it was moved, correct the line"
        )


def _check_cluster(data: Path, properties: Path, wanted: str | None) -> None:
    """Raise CommandFailed if the properties name another cluster than the one that is wanted."""
    named = _read(properties).get(CLUSTER_ID_KEY)
    if wanted is not None and named is not None and named != wanted:
        raise CommandFailed(
            f"{data} belongs to cluster {named}, not {wanted}: leave out --cluster-id (and the "
            "variable CLUSTER_ID), or choose another directory with --data DIR"
        )


def _directory(data: Path, node_id: int) -> str:
    return os.path.abspath(data / f"node-{node_id}")


def _read(path: Path) -> dict[str, str]:
    try:
        return {entry.key: entry.value for entry in parse_properties(path.read_text())}
    except (PropertiesError, UnicodeDecodeError) as problem:
        raise CommandFailed(f"{path} cannot be read: {problem}") from None
