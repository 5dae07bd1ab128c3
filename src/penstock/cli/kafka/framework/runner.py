"""Runs one of Kafka's commands: options in, an exit code out.

A command prints its results on stdout. Invalid arguments end the command with the reason and its
options on stderr, and exit code 1, as in Kafka's tools.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from penstock.client.failures import ClientError
from penstock.client.transport.connection import CannotReach
from penstock.errors import KafkaError
from penstock.release import VERSION as PENSTOCK_VERSION
from penstock.wire.primitives import UnencodableValue

KAFKA_VERSION = "4.3.1"
OK, FAILED, INTERRUPTED = 0, 1, 130


class UsageRejected(Exception):
    """Ends a command with a message and the list of its options."""


class CommandRejected(Exception):
    """Ends a command with a message."""


@dataclass(frozen=True, slots=True)
class Command:
    """One of Kafka's commands; a call with its arguments returns its exit code.

    `run` returns the exit code, or None for success; `failed` prints errors of the server or
    client.
    """

    name: str
    about: str
    options: tuple[Option, ...]
    run: Callable[[GivenOptions], int | None]
    failed: Callable[[Exception], None]
    # Whether invalid options print the list of all options, besides the reason.
    usage_on_error: bool
    before_error: str

    def __call__(self, arguments: Sequence[str] | None = None) -> int:
        given = sys.argv[1:] if arguments is None else list(arguments)
        return guarded(lambda: _run(self, given), self.failed)

    @property
    def all_options(self) -> tuple[Option, ...]:
        return (*self.options, HELP, VERSION)


def _run(command: Command, arguments: Sequence[str]) -> int:
    options = command.all_options
    if not arguments:
        say(f"{command.name}: say at least one option. {command.about}")
        say(f"{help_text(options)}\n{example_text(command.name)}")
        return FAILED
    try:
        given = parse(options, arguments)
        if given.has(HELP.name):
            say(f"{command.about}\n{help_text(options)}\n{example_text(command.name)}")
            return FAILED  # as Kafka's tools do
        if given.has(VERSION.name):
            print_version()
            return OK
        return command.run(given) or OK
    except OptionRejected as rejected:
        say(f"{command.before_error}{rejected}")
        if command.usage_on_error:
            say(help_text(options))
        return FAILED
    except UsageRejected as rejected:
        say(str(rejected))
        say(help_text(options))
        return FAILED


def guarded(run: Callable[[], int], failed: Callable[[Exception], None]) -> int:
    """Run a function and turn its errors into messages and an exit code."""
    # `nohup kafka-... &` starts with SIGINT ignored, so Ctrl-C could not end a consumer.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return discard_output()
    except (KafkaError, CannotReach, ClientError, CommandRejected) as problem:
        failed(problem)
        return FAILED
    except UnencodableValue as problem:
        failed(CommandRejected(f"what was given cannot be sent: {problem}"))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as problem:
        if problem.filename is not None:
            raise
        discard_output()
        say(f"Error: the output cannot be written: {problem.strerror or problem}")
        return FAILED
    except Exception as problem:
        if not _of_librdkafka(problem):
            raise
        failed(CommandRejected(str(problem)))
        return FAILED


def _of_librdkafka(problem: Exception) -> bool:
    """Return whether the error is librdkafka's, without importing librdkafka."""
    loaded = sys.modules.get("confluent_kafka")
    return loaded is not None and isinstance(problem, loaded.KafkaException)


def discard_output() -> int:
    """Redirect stdout to /dev/null after its reader has gone, so that the last flush works."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def print_version() -> None:
    """Print the version of Kafka first, because scripts compare it."""
    print(f"{KAFKA_VERSION} (Penstock {PENSTOCK_VERSION})")


def say(text: str) -> None:
    """Print a message to stderr."""
    print(text, file=sys.stderr)


def say_no_effect(given: GivenOptions, **why: str) -> None:
    """Print a note with the reason for each given option that has no effect."""
    for name, reason in why.items():
        option = name.replace("_", "-")
        if given.has(option):
            say(f"note: --{option} has no effect here: {reason}")


def message_of(problem: Exception) -> str:
    """Return the server's message, or the text of another error."""
    return problem.message if isinstance(problem, KafkaError) else str(problem)


def print_message(problem: Exception) -> None:
    """Print the text of an error and nothing around it, as some of Kafka's tools do."""
    say(message_of(problem))


def print_failure(problem: Exception) -> None:
    """Print an error with Kafka's name of it."""
    kind = f"{problem.kafka_name()}: " if isinstance(problem, KafkaError) else ""
    say(f"Error: {kind}{message_of(problem)}")


def command(
    name: str,
    about: str,
    options: tuple[Option, ...],
    *,
    failed: Callable[[Exception], None] = print_failure,
    usage_on_error: bool = True,
    before_error: str = "",
) -> Callable[[Callable[[GivenOptions], int | None]], Command]:
    """Return a decorator that turns a function of the given options into a command."""
    return lambda run: Command(name, about, options, run, failed, usage_on_error, before_error)


def require(given: GivenOptions, *names: str) -> None:
    for name in names:
        if not given.has(name):
            raise UsageRejected(f'Missing required argument "[{name}]"')


def exclude(given: GivenOptions, used: str, *others: str) -> None:
    """Raise UsageRejected if one of `others` is given beside `used`."""
    for other in others:
        if given.has(used) and given.has(other):
            raise UsageRejected(f'Option "[{used}]" can\'t be used with option "[{other}]"')


def one_action(given: GivenOptions, *names: str) -> str:
    """Return the given action; raise UsageRejected unless there is exactly one."""
    said = [name for name in names if given.has(name)]
    if len(said) != 1:
        listed = ", ".join(f"--{name}" for name in names)
        raise UsageRejected(f"Command must include exactly one action: {listed}")
    return said[0]
