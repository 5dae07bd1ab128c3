"""kafka-server-stop: stops the nodes of this machine that kafka-server-start has started.

All nodes, as with Kafka's script, or those with an id or a role. Nodes of `penstock start` are not
stopped.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.cli.kafka.framework.examples import example_text
from penstock.cli.kafka.framework.options import (
    HELP,
    VERSION,
    GivenOptions,
    Option,
    OptionRejected,
    help_text,
    parse,
)
from penstock.cli.kafka.framework.runner import (
    FAILED,
    OK,
    CommandRejected,
    guarded,
    print_failure,
    print_version,
    say,
)
from penstock.config.properties import PropertiesError, parse_properties

OPTIONS = (
    Option("node-id", "Only the node with this node.id.", "Integer"),
    Option("process-role", "Only nodes with this process.roles.", "String"),
    VERSION,
    HELP,
)
STARTED_BY = ("kafka-server-start", "penstock.cli.kafka.server_start")


class ServerProcess(NamedTuple):
    pid: int
    arguments: tuple[str, ...]
    directory: Path


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    return guarded(lambda: _run(given), print_failure)


def _run(arguments: Sequence[str]) -> int:
    try:
        given = parse(OPTIONS, arguments)
    except OptionRejected as rejected:
        say(f"{rejected}\n{help_text(OPTIONS)}")
        return FAILED
    if given.has("help"):
        print(f"{help_text(OPTIONS)}\n{example_text('kafka-server-stop')}")
        return OK
    if given.has("version"):
        print_version()
        return OK
    if given.has("node-id") and given.has("process-role"):
        print(
            "When both node-id and process-role are provided, the value for node-id will take "
            "precedence"
        )
    found = [
        each for each in _processes() if (at := _file_at(each)) and _is_chosen(each, at, given)
    ]
    if not found:
        print("No kafka server to stop")
        return FAILED
    number = _signal(os.environ.get("SIGNAL", "TERM"))
    for each in found:
        os.kill(each.pid, number)
    return OK


def _signal(name: str) -> signal.Signals:
    try:
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    except KeyError:
        raise CommandRejected(f"SIGNAL={name}: there is no such signal") from None


def _file_at(process: ServerProcess) -> int:
    """Return the index of the file among the arguments; 0 if the process is no node."""
    if not Path(process.arguments[0]).name.startswith("python"):
        return 0
    for at, argument in enumerate(process.arguments[1:], 1):
        if Path(argument).name in STARTED_BY:
            return at + 1 if at + 1 < len(process.arguments) else 0
    return 0


def _is_chosen(process: ServerProcess, file_at: int, given: GivenOptions) -> bool:
    if not given.any_of("node-id", "process-role"):
        return True
    settings = _settings(process, file_at)
    if (node_id := given.text("node-id")) is not None:
        return settings.get("node.id", settings.get("broker.id")) == node_id
    return settings.get("process.roles") == given.text("process-role")


def _settings(process: ServerProcess, file_at: int) -> dict[str, str]:
    """Return the settings of a process: its file, if readable, and its overrides."""
    found: dict[str, str] = {}
    try:
        text = (process.directory / process.arguments[file_at]).read_text("utf-8", "replace")
        found = {entry.key: entry.value for entry in parse_properties(text)}
    except (OSError, PropertiesError):
        pass
    words = iter(process.arguments[file_at + 1 :])
    for word in words:
        if word.startswith("--override"):
            said = word.partition("=")[2] if "=" in word else next(words, "")
            key, _, value = said.partition("=")
            found[key] = value
    return found


# -- processes of this machine


def _processes() -> Iterator[ServerProcess]:
    """Yield processes of this user, or all for root, without this one."""
    proc = Path("/proc")
    for each in _from_proc(proc) if (proc / "self" / "cmdline").exists() else _from_ps():
        if each.pid != os.getpid():
            yield each


def _from_proc(proc: Path) -> Iterator[ServerProcess]:
    for place in proc.iterdir():
        if not place.name.isdecimal():
            continue
        try:
            words = (place / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            directory = (place / "cwd").readlink()
        except OSError:
            continue  # the process has ended, or belongs to another user
        if words[0]:
            yield ServerProcess(int(place.name), tuple(words[:-1]), directory)


def _from_ps() -> Iterator[ServerProcess]:
    """Yield processes without /proc: relative paths start here, and names have no blanks."""
    listed = subprocess.run(
        ["ps", "axo", "pid=,args="], capture_output=True, text=True, check=False
    )
    for line in listed.stdout.splitlines():
        pid, *words = line.split()
        if words:
            yield ServerProcess(int(pid), tuple(words), Path.cwd())


if __name__ == "__main__":
    sys.exit(main())
