"""`penstock start`: reads the configuration, starts the node, says what is where."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from penstock import __version__
from penstock.cli.output import (
    CommandFailed,
    Format,
    FormatOption,
    Json,
    format_of,
    note,
    print_json_line,
)

if TYPE_CHECKING:
    from penstock.config import BrokerConfig, Listener, Loaded

CONFIG_BYTES_MAX = 16 * 1024 * 1024


class Running(Protocol):
    """What a node tells when it is ready."""

    @property
    def config(self) -> "BrokerConfig": ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def listeners(self) -> "Sequence[Listener]":
        """The addresses that are really listened on: ports that were 0 are known now."""
        ...


def start(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="A server.properties file."),
    ] = None,
    sets: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A broker key; may be repeated."),
    ] = [],  # noqa: B006 - typer reads it, nobody changes it
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Where the data is: log.dirs in short."),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(
            "--cluster-id",
            envvar="CLUSTER_ID",
            metavar="ID",
            help="The cluster this node must belong to; an empty directory gets this id.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether a node could start with this.")
    ] = False,
    form: FormatOption = None,
) -> None:
    """Start a node. Without --config: one node for this machine, on 127.0.0.1:9092."""
    said = [f"log.dirs={data}", *sets] if data is not None else sets
    loaded = _load(config, said)
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    if check:
        print("The configuration is fine.")
        return
    raise typer.Exit(_run(loaded, cluster_id, format_of(context, form)))


def _load(path: Path | None, sets: Sequence[str]) -> "Loaded":
    from penstock.config.load import ConfigRefused, ConfigText, load
    from penstock.config.single_node import SINGLE_NODE

    file = SINGLE_NODE if path is None else ConfigText(str(path), _read(path))
    try:
        return load([file], os.environ, sets)
    except ConfigRefused as refused:
        listed = "\n".join(f"  {problem}" for problem in refused.problems)
        raise CommandFailed(
            f"the node cannot start with this configuration:\n{listed}\n"
            "`penstock config explain KEY` tells what a key means."
        ) from None


def _read(path: Path) -> str:
    try:
        data = path.read_bytes() if path.stat().st_size <= CONFIG_BYTES_MAX else None
    except FileNotFoundError:
        raise CommandFailed(f"--config {path}: there is no such file") from None
    except OSError as problem:
        raise CommandFailed(f"--config {path}: {(problem.strerror or '').lower()}") from None
    if data is None:
        raise CommandFailed(f"--config {path}: too large for a configuration")
    try:
        return data.decode()
    except UnicodeDecodeError:
        # Java reads properties files as Latin-1 unless told otherwise.
        return data.decode("latin-1")


def _run(loaded: "Loaded", cluster_id: str | None, form: Format) -> int:
    node = import_module("penstock.node")

    def announce(running: Running) -> None:
        if form is Format.JSON:
            print_json_line(_announcement(running))
        else:
            print(banner(running, _said_without_effect(loaded)))
        sys.stdout.flush()

    try:
        return int(node.run_node(loaded.config, announce, cluster_id))
    except node.StartRefused as refused:
        raise CommandFailed(str(refused)) from None
    except OSError as problem:
        raise CommandFailed(_start_problem(problem)) from None


def _said_without_effect(loaded: "Loaded") -> list[str]:
    """Settings without effect that the user made; the built-in ones are nobody's news."""
    from penstock.config.single_node import SINGLE_NODE

    static = loaded.config.static
    return [n for n in loaded.without_effect if not static[n].where.startswith(SINGLE_NODE.name)]


def _start_problem(problem: OSError) -> str:
    where = f" ({problem.filename})" if problem.filename else ""
    if problem.errno == errno.EADDRINUSE:
        return (
            "an address of listeners is in use; stop what uses it, or choose another: "
            "--set listeners=PLAINTEXT://127.0.0.1:9192"
        )
    return f"the node cannot start: {(problem.strerror or str(problem)).lower()}{where}"


def _announcement(running: Running) -> dict[str, Json]:
    config = running.config
    return {
        "event": "started",
        "version": __version__,
        "node_id": config.node_id,
        "cluster_id": running.cluster_id,
        "listeners": [str(listener) for listener in running.listeners],
        "data": list(config.log_dirs),
        "durability": config.durability,
        "pid": os.getpid(),
    }


_DURABILITY = {
    "fsync": "fsync: an acknowledged record is on the disk",
    "page-cache": "page-cache: an acknowledged record is in memory and on the replicas",
}


def banner(running: Running, without_effect: Sequence[str]) -> str:
    """What is where, and what to type next."""
    config = running.config
    clients = [
        each for each in running.listeners if each.name not in config.controller_listener_names
    ]
    address = f"{clients[0].host or '127.0.0.1'}:{clients[0].port}" if clients else ""
    before = "" if address == "127.0.0.1:9092" else f" --bootstrap {address}"
    lines = [
        f"Penstock {__version__} is running: node {config.node_id}, {' and '.join(config.roles)}, "
        f"cluster {running.cluster_id}",
        f"  listening on  {', '.join(map(str, running.listeners))}",
        f"  data in       {', '.join(os.path.abspath(each) for each in config.log_dirs)}",
        f"  durability    {_DURABILITY[config.durability]}",
    ]
    if without_effect:
        names = ", ".join(without_effect[:4]) + (", ..." if len(without_effect) > 4 else "")
        lines.append(f"  no effect yet {len(without_effect)} of the settings: {names}")
    if clients:
        lines += [
            "Try, in another terminal:",
            f"  penstock{before} topic create greetings --partitions 3",
            f"  echo 'hello, world' | penstock{before} produce greetings",
            f"  penstock{before} consume greetings",
        ]
    return "\n".join([*lines, "Stop with Ctrl-C."])
