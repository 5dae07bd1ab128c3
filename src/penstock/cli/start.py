"""`penstock start`: reads the configuration, starts the node, prints a banner."""

import gc
import logging
import os
import sys
import time
from codecs import BOM_UTF8
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from penstock.cli.arguments.completion import complete_broker_setting
from penstock.cli.arguments.shared_options import with_format
from penstock.cli.terminal.log_lines import logging_to
from penstock.cli.terminal.output import (
    BOOTSTRAP_DEFAULT,
    CommandFailed,
    ExitCode,
    Format,
    Row,
    WrongUsage,
    format_of,
    key_values,
    note,
    print_next_value,
    print_value,
    reason_of,
)
from penstock.cli.terminal.progress_bar import BarredStream, RecoveryBar, seconds_text
from penstock.cli.terminal.typed_command import typed_command
from penstock.cli.terminal.unblocked_stream import UnblockedStream
from penstock.log_levels import LogLevel
from penstock.release import VERSION

if TYPE_CHECKING:
    from penstock.cli.secured_node import SecuredNode
    from penstock.config import BrokerConfig, ListenerAddress, Loaded
    from penstock.config.listeners import Address
    from penstock.config.load import ConfigText, WithoutEffect
    from penstock.start_obstacles import Obstacles

CONFIG_BYTES_MAX = 16 * 1024 * 1024
WARNINGS_MAX = 20
DATA_DEFAULT = Path("data")  # log.dirs of a single node
NODES_MAX = 9


class RunningNode(Protocol):
    """A node that is ready to serve."""

    @property
    def config(self) -> "BrokerConfig": ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def listeners(self) -> "Sequence[ListenerAddress]":
        """Return the bound addresses: port 0 is replaced by the real port."""
        ...

    @property
    def metrics(self) -> "Address | None":
        """Return the address of metrics and health, if served."""
        ...


NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        min=2,
        max=NODES_MAX,
        metavar="N",
        help="So many nodes, each a process and a directory in --data, until Ctrl-C.",
    ),
]
SecureOption = Annotated[
    bool, typer.Option("--secure", help="Clients log in over TLS; makes what they and it need.")
]
LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        envvar="PENSTOCK_LOG_LEVEL",
        case_sensitive=False,
        help="How much the node says on stderr.",
    ),
]
ClusterIdOption = Annotated[
    str | None,
    typer.Option(
        "--cluster-id",
        envvar="CLUSTER_ID",
        metavar="ID",
        help="The cluster this node must belong to; an empty directory gets this id.",
    ),
]


@with_format
def start(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="A server.properties file."),
    ] = None,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            autocompletion=complete_broker_setting,
            help="A broker key; may be repeated.",
        ),
    ] = [],  # noqa: B006 - typer only reads the default
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Where the data is: log.dirs in short."),
    ] = None,
    nodes: NodesOption = None,
    secure: SecureOption = False,
    cluster_id: ClusterIdOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether a node could start with this.")
    ] = False,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Start a node. Without --config: one node for this machine, on 127.0.0.1:9092."""
    form = format_of(context)
    if secure and (nodes is not None or config is not None):
        raise WrongUsage(
            "--secure is for one node without --config; the guide to certificates has the settings"
            " of others"
        )
    if nodes is not None:
        from penstock.cli.start_nodes.command import start_nodes

        code = start_nodes(
            nodes,
            data,
            sets,
            config=config,
            check=check,
            cluster_id=cluster_id,
            log_level=log_level,
            form=form,
        )
        raise typer.Exit(code)
    said = [f"log.dirs={data}", *sets] if data is not None else sets
    files = _files(config)
    secured = None if config is not None else _secured_node(data, make=secure and not check)
    if secured is not None:
        files.append(secured.text())
    if check:
        _check(form, files, said, cluster_id)
        return
    loaded = _load(files, said)
    if config is None:
        _reject_several(loaded.config.log_dirs)
    _warn(loaded.warnings)
    if secured is not None:
        secured.describe()
    stream = BarredStream(UnblockedStream(sys.stderr))
    with logging_to(stream, log_level):
        profile = None if secured is None else secured.profile
        code = _run(loaded, cluster_id, form, stream, profile)
    raise typer.Exit(code)


def _reject_several(directories: Sequence[str]) -> None:
    """Raise CommandFailed for the directory of several nodes: one node would be a new cluster."""
    from penstock.cli.start_nodes.cluster_directory import node_files

    for each in directories:
        if count := len(node_files(Path(each))):
            raise CommandFailed(
                f"{each} holds a cluster of {count} nodes: start them with --nodes {count}, or "
                "choose another directory with --data DIR"
            )


def _warn(warnings: Sequence[str], shown_max: int = WARNINGS_MAX) -> None:
    for warning in warnings[:shown_max]:
        note(f"warning: {warning}")
    if len(warnings) > shown_max:
        note(f"... and {len(warnings) - shown_max} more; --check shows them all")


def _secured_node(data: Path | None, *, make: bool) -> "SecuredNode | None":
    """Return the files of a secured node, None for another one."""
    whole = (DATA_DEFAULT if data is None else data).absolute()
    path = whole.with_name(f"{whole.name}.secure")
    if not make and not path.exists():
        return None
    from penstock.cli.secured_node import SecuredNode

    found = SecuredNode(path)
    if make and not found.exists:
        found.make()
    return found if found.exists else None


def _check(
    form: Format, files: "Sequence[ConfigText]", sets: Sequence[str], cluster_id: str | None
) -> None:
    """Print every problem, every warning and every setting without effect."""
    from penstock.config.load import ConfigRejected

    found: Loaded | ConfigRejected
    invalid: tuple[str, ...] = ()
    try:
        found = _load_texts(files, sets)
    except ConfigRejected as rejected:
        found, invalid = rejected, rejected.problems
    obstacles = _obstacles(found.config, cluster_id)
    problems = (*invalid, *obstacles.problems)
    warnings = (*found.warnings, *obstacles.warnings)
    idle = _said_without_effect(found.without_effect)
    if form is not Format.TABLE:
        shown: Row = {"fine": not problems, "problems": [*problems], "warnings": [*warnings]}
        print_value(form, {**shown, "without_effect": [{**each._asdict()} for each in idle]})
        if problems:
            raise typer.Exit(ExitCode.REJECTED)
        return
    _warn(warnings, len(warnings))
    if idle:
        print("Without effect:")
        for each in idle:
            print(f"  {each}")
    if invalid:
        raise _cannot_start(problems)
    if problems:
        raise CommandFailed(
            "the configuration is fine, but the node cannot start on this machine:\n"
            + "\n".join(f"  {problem}" for problem in problems)
        )
    print("The configuration is fine.")


def _obstacles(config: "BrokerConfig | None", cluster_id: str | None) -> "Obstacles":
    """Return what this machine lacks; nothing for a file that could not be read to its end."""
    from penstock.start_obstacles import Obstacles, find_obstacles

    return Obstacles([], []) if config is None else find_obstacles(config, cluster_id)


def _files(path: Path | None) -> "list[ConfigText]":
    from penstock.config.load import ConfigText
    from penstock.config.single_node import SINGLE_NODE

    return [SINGLE_NODE if path is None else ConfigText(str(path), _read(path))]


def _load_texts(files: "Sequence[ConfigText]", sets: Sequence[str]) -> "Loaded":
    from penstock.config.load import load

    return load(files, os.environ, sets)


def _load(files: "Sequence[ConfigText]", sets: Sequence[str]) -> "Loaded":
    from penstock.config.load import ConfigRejected

    key_values(sets, "--set")  # a malformed option is wrong usage, with its own exit code
    try:
        return _load_texts(files, sets)
    except ConfigRejected as rejected:
        _warn(rejected.warnings)
        raise _cannot_start(rejected.problems) from None


def _cannot_start(problems: Sequence[str]) -> CommandFailed:
    listed = "\n".join(f"  {problem}" for problem in problems)
    return CommandFailed(
        f"the node cannot start with this configuration:\n{listed}\n"
        "`penstock config explain KEY` tells what a key means."
    )


def _read(path: Path) -> str:
    try:
        data = path.read_bytes() if path.stat().st_size <= CONFIG_BYTES_MAX else None
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file") from None
    except OSError as problem:
        raise _unreadable(path, reason_of(problem)) from None
    if data is None:
        raise _unreadable(path, "too large for a configuration")
    if b"\0" in data:
        raise _unreadable(path, "not a text file; it must be a server.properties file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        # Java's default encoding of properties files is Latin-1.
        return data.removeprefix(BOM_UTF8).decode("latin-1")


def _unreadable(path: Path, reason: str) -> CommandFailed:
    return WrongUsage(f"--config {path}: {reason}")


def _run(
    loaded: "Loaded",
    cluster_id: str | None,
    form: Format,
    stream: BarredStream,
    profile: str | None,
) -> int:
    gc.disable()  # imports leave no garbage; run_node enables the collector again
    node = import_module("penstock.node")

    def announce(running: RunningNode) -> None:
        if form is not Format.TABLE:
            print_next_value(form, _announcement(running))
        else:
            idle = [e.key for e in _said_without_effect(loaded.without_effect)]
            print(banner(running, idle, profile))
        sys.stdout.flush()

    begun_s = time.monotonic()
    try:
        bar = RecoveryBar(stream, logging.getLogger("penstock.start").info)
        code = int(node.run_node(loaded.config, announce, cluster_id, bar))
    except node.StartRefused as rejected:
        raise CommandFailed(str(rejected)) from None
    except OSError as problem:
        raise CommandFailed(_start_problem(problem)) from None
    print_end(form, loaded.config.node_id, code, time.monotonic() - begun_s)
    return code


def print_end(form: Format, node_id: int, code: int, up_s: float) -> None:
    """Print the last line of a node: whether its next start finds everything in order."""
    if form is not Format.TABLE:
        print_next_value(form, {"event": "stopped", "node_id": node_id, "clean": code == 0})
    elif code:
        print(f"Node {node_id} has stopped after {seconds_text(up_s)}, not cleanly: see its log.")
    else:
        print(f"Node {node_id} has stopped cleanly after {seconds_text(up_s)}.")
    sys.stdout.flush()


def _said_without_effect(found: "Sequence[WithoutEffect]") -> "list[WithoutEffect]":
    """Return the settings without effect that the user made; the built-in ones are no news."""
    from penstock.config.single_node import SINGLE_NODE

    return [each for each in found if not each.where.startswith(SINGLE_NODE.name)]


def _start_problem(problem: OSError) -> str:
    """Return the message for an OSError about a path; the node itself reports other causes."""
    reason = reason_of(problem)
    if not problem.filename:
        return f"the node cannot start: {reason}"
    return (
        f"the node cannot start: {reason} ({problem.filename}). Check that this user may make and "
        "write it, or choose another directory (--data DIR, or log.dirs)."
    )


def _announcement(running: RunningNode) -> Row:
    config = running.config
    return {
        "event": "started",
        "version": VERSION,
        "node_id": config.node_id,
        "cluster_id": running.cluster_id,
        "listeners": [str(listener) for listener in running.listeners],
        "metrics": None if running.metrics is None else str(running.metrics),
        "data": list(config.log_dirs),
        "durability": config.durability,
        "default_replication_factor": config.integer("default.replication.factor"),
        "min_insync_replicas": config.integer("min.insync.replicas"),
        "pid": os.getpid(),
    }


_DURABILITY = {
    "fsync": "fsync: with acks=all a record is on the disk before it is acknowledged",
    "page-cache": "page-cache: as in Kafka, an acknowledged record is in the page cache; "
    "the system writes it out",
}


def banner(running: RunningNode, without_effect: Sequence[str], profile: str | None = None) -> str:
    """Return the banner: addresses, directories, and commands to try. `profile` is that of a
    secured node."""
    from penstock.config.exposure import exposed

    config = running.config
    clients = [
        each for each in running.listeners if each.name not in config.controller_listener_names
    ]
    address = str(clients[0]._replace(host=clients[0].host or "127.0.0.1")) if clients else ""
    address = address.partition("://")[2]
    command = typed_command()
    if address != BOOTSTRAP_DEFAULT:
        command += f" --bootstrap {address}"
    if profile is not None:
        command += f" --profile {profile}"
    lines = [
        f"Penstock {VERSION} is running: node {config.node_id}, {' and '.join(config.roles)}, "
        f"cluster {running.cluster_id}",
        f"  listening on  {', '.join(map(str, running.listeners))}",
        f"  data in       {', '.join(os.path.abspath(each) for each in config.log_dirs)}",
        f"  durability    {_DURABILITY[config.durability]}",
    ]
    if running.metrics is not None:
        metrics = running.metrics._replace(host=running.metrics.host or "127.0.0.1")
        lines.append(f"  metrics on    http://{metrics}/metrics (and /health/ready, /status)")
    lines += (f"  unprotected   {each}" for each in exposed(config))
    if without_effect:
        names = ", ".join(without_effect[:4]) + (", ..." if len(without_effect) > 4 else "")
        lines.append(
            f"  no effect yet {len(without_effect)} of the settings: {names}; --check lists them"
        )
    if clients:
        lines += [
            "Try, in another terminal:",
            f"  {command} topic create greetings --partitions 3",
            f"  echo 'hello, world' | {command} produce greetings",
            f"  {command} consume greetings",
        ]
    return "\n".join([*lines, "Stop with Ctrl-C."])
