"""kafka-server-start: runs a node with a server.properties file, here or in the background."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from penstock.cli.kafka.framework.client_options import load_server
from penstock.cli.kafka.framework.examples import example_text
from penstock.cli.kafka.framework.options import (
    HELP,
    VERSION,
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
from penstock.cli.start import RunningNode, banner, print_end
from penstock.cli.terminal.log_lines import logging_to
from penstock.cli.terminal.output import Format
from penstock.cli.terminal.progress_bar import BarredStream, RecoveryBar
from penstock.cli.terminal.unblocked_stream import UnblockedStream
from penstock.log_levels import LogLevel

MODULE = "penstock.cli.kafka.server_start"
USAGE = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*"
OUTPUT = "kafkaServer.out"
OPTIONS = (
    Option("override", "A key of the file, with another value.", "String: key=value"),
    VERSION,
    HELP,
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    return guarded(lambda: _run(given), print_failure)


def _run(arguments: Sequence[str]) -> int:
    if not arguments or "--help" in arguments:
        say(USAGE)
        say(f"{help_text(OPTIONS)}\n{example_text('kafka-server-start')}")
        return FAILED
    if "--version" in arguments:
        print_version()
        return OK
    background = arguments[0] in ("-daemon", "--daemon")
    path, *rest = arguments[1:] if background else arguments
    try:
        given = parse(OPTIONS, rest)
    except OptionRejected as rejected:
        say(f"{rejected}\n{USAGE}")
        return FAILED
    if given.rest:
        say(f"Found non argument parameters: {','.join(given.rest)}\n{USAGE}")
        return FAILED
    overrides = given.texts("override")
    if background:
        return _start_in_background(path, overrides)
    return _serve(path, overrides)


def _serve(path: str, overrides: Sequence[str]) -> int:
    loaded = load_server(path, overrides)
    node = import_module("penstock.node")

    def announce(running: RunningNode) -> None:
        print(banner(running, []))
        # Scripts wait for this line of Kafka's server.
        print(f"[KafkaRaftServer nodeId={running.config.node_id}] Kafka Server started")
        sys.stdout.flush()

    begun_s = time.monotonic()
    stream = BarredStream(UnblockedStream(sys.stderr))
    with logging_to(stream, LogLevel.INFO):
        bar = RecoveryBar(stream, logging.getLogger("penstock.start").info)
        try:
            code = int(node.run_node(loaded.config, announce, None, bar))
        except node.StartRefused as rejected:
            raise CommandRejected(str(rejected)) from None
        except OSError as problem:
            where = f" ({problem.filename})" if problem.filename else ""
            raise CommandRejected(f"the node cannot start: {problem.strerror}{where}") from None
    print_end(Format.TABLE, loaded.config.node_id, code, time.monotonic() - begun_s)
    return code


def _start_in_background(path: str, overrides: Sequence[str]) -> int:
    """Start the node in a new session; its output goes to LOG_DIR (./logs)."""
    load_server(path, overrides)
    directory = Path(os.environ.get("LOG_DIR", "logs"))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / OUTPUT).open("ab") as output:
            node = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, path, *_as_options(overrides)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as problem:
        raise CommandRejected(f"{directory / OUTPUT}: {problem.strerror}") from None
    say(f"started as process {node.pid}; its output is in {directory / OUTPUT}")
    return OK


def _as_options(overrides: Sequence[str]) -> list[str]:
    return [word for text in overrides for word in ("--override", text)]


if __name__ == "__main__":
    sys.exit(main())
