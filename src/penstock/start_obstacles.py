"""Directories and addresses of this machine that keep a node from starting, for `start --check`.

The checks leave nothing behind: a probe file has no name, and a probe socket never listens.
"""

import os
import tempfile
import time
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from penstock.broker.metadata.storage_format import LOCK_FILE, StorageError, check_directories
from penstock.broker.network.node_tls import load
from penstock.config import BrokerConfig
from penstock.config.broker import ConfigSource
from penstock.config.values import WrongSetting
from penstock.real.disk import is_locked
from penstock.real.network import bound_socket
from penstock.real.tls_contexts import TlsContexts
from penstock.real.world import RealWorld, read_file
from penstock.world import DiskFailed, TlsFailed


class Obstacles(NamedTuple):
    """Problems stop a start; with warnings a node starts, and lacks something."""

    problems: list[str]
    warnings: list[str]


def find_obstacles(config: BrokerConfig, cluster_id: str | None = None) -> Obstacles:
    """Return the obstacles; `cluster_id` is the one that was asked for, if any. A check that needs
    an invalid value is skipped, because the value itself is reported."""
    found = Obstacles([], [])
    looks = (
        _look_at_directories,
        partial(_look_at_owners, cluster_id),
        _look_at_listeners,
        _look_at_stores,
        _look_at_metrics,
    )
    for look in looks:
        with suppress(WrongSetting):
            look(config, found)
    return found


def _look_at_listeners(config: BrokerConfig, found: Obstacles) -> None:
    for listener in config.listeners:
        if (reason := _bind_problem(listener.host, listener.port)) is not None:
            found.problems.append(
                f"cannot listen on {listener}: {reason}; stop what uses that address, or choose "
                "another one in listeners"
            )


def _look_at_stores(config: BrokerConfig, found: Obstacles) -> None:
    contexts = TlsContexts()
    try:
        for name, each in load(config, read_file, time.time_ns() // 1_000_000).items():
            try:
                contexts.prepare(each.settings)
            except TlsFailed as problem:
                raise TlsFailed(f"listener {name}: {each.origin}: {problem}") from problem
    except TlsFailed as problem:
        found.problems.append(str(problem))


def _look_at_metrics(config: BrokerConfig, found: Obstacles) -> None:
    metrics = config.metrics_listener
    if metrics is not None and (reason := _bind_problem(*metrics)) is not None:
        chosen = config.source("metrics.listener") is not ConfigSource.DEFAULT
        (found.problems if chosen else found.warnings).append(
            f"cannot listen on {metrics} for metrics: {reason}; choose another address in "
            "metrics.listener"
        )


def _look_at_directories(config: BrokerConfig, found: Obstacles) -> None:
    if not config.log_dirs:
        return  # the configuration itself reports the empty list
    first = config.metadata_log_dir
    unusable: dict[str, str] = {}
    for root in dict.fromkeys((first, *config.log_dirs)):
        path = os.path.abspath(root)
        if is_locked(os.path.join(path, LOCK_FILE)):
            found.problems.append(
                f"another node is using {path} (it holds {LOCK_FILE}); stop it, or choose another "
                "directory (--data DIR, or log.dirs)"
            )
        elif (reason := _write_problem(path)) is not None:
            unusable[root] = f"cannot write in {path}: {reason}; choose another directory"
    all_fail = all(root in unusable for root in config.log_dirs)
    for root, told in unusable.items():
        # The others go offline, and the node starts.
        (found.problems if root == first or all_fail else found.warnings).append(told)


def _look_at_owners(cluster_id: str | None, config: BrokerConfig, found: Obstacles) -> None:
    """Look whose the directories are, as a start does. A further directory that does not exist is
    empty, and one that cannot be used would be offline."""
    if not config.log_dirs:
        return  # the configuration itself reports the empty list
    first = config.metadata_log_dir
    roots = [
        root
        for root in dict.fromkeys((first, *config.log_dirs))
        if root == first or (os.path.isdir(root) and _write_problem(root) is None)
    ]
    world = RealWorld()
    try:
        check_directories(
            [world.disk(root) for root in roots],
            node_id=config.node_id,
            cluster_id=cluster_id,
            sole_voter=config.sole_voter,
            is_controller=config.is_controller,
            static_voters=bool(config.voters),
        )
    except StorageError as problem:
        found.problems.append(str(problem))
    except DiskFailed:
        pass  # the directory itself is reported
    finally:
        world.close()


def _write_problem(path: str) -> str | None:
    """Return why a directory cannot be made or written; its parents may have to be made, too."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    try:
        with tempfile.TemporaryFile(dir=path):
            return None
    except OSError as problem:
        return f"{_reason(problem)} ({path})"


def _bind_problem(host: str, port: int) -> str | None:
    try:
        bound_socket(host, port).close()
    except OSError as problem:
        return _reason(problem)
    return None


def _reason(problem: OSError) -> str:
    return (problem.strerror or str(problem)).lower()
