"""Runs one of Kafka's commands: options in, an exit code out.

A command prints its results on stdout. What it was given and does not understand ends it with the
reason and its options on stderr, and exit code 1, as Kafka's tools do.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.cli.kafka.options import (
    HELP,
    VERSION,
    Given,
    Option,
    OptionRefused,
    help_text,
    parse,
)
from penstock.client.failures import ClientError
from penstock.client.transport.connection import CannotReach
from penstock.errors import KafkaError
from penstock.release import VERSION as PENSTOCK_VERSION
from penstock.wire.primitives import Unwritable

KAFKA_VERSION = "4.3.1"
OK, FAILED, INTERRUPTED = 0, 1, 130


class UsageRefused(Exception):
    """Ends a command with a sentence and its options."""


class CommandRefused(Exception):
    """Ends a command with a sentence."""


@dataclass(frozen=True, slots=True)
class Command:
    """`run` gives the exit code; `failed` prints what the server, or the way to it, said."""

    name: str
    about: str
    options: tuple[Option, ...]
    run: Callable[[Given], int]
    failed: Callable[[Exception], None]
    # Whether options that are not understood bring up all options, besides the reason.
    usage_on_refusal: bool = True
    before_refusal: str = ""

    @property
    def all_options(self) -> tuple[Option, ...]:
        return (*self.options, HELP, VERSION)


def run_command(command: Command, arguments: Sequence[str] | None) -> int:
    """The whole life of a command, from what was typed to its exit code."""
    given_arguments = sys.argv[1:] if arguments is None else list(arguments)
    return guarded(lambda: _run(command, given_arguments), command.failed)


def _run(command: Command, arguments: Sequence[str]) -> int:
    options = command.all_options
    if not arguments:
        say(f"{command.name}: say at least one option. {command.about}")
        say(help_text(options))
        return FAILED
    try:
        given = parse(options, arguments)
        if given.has(HELP.name):
            raise UsageRefused(command.about)
        if given.has(VERSION.name):
            print_version()
            return OK
        return command.run(given)
    except OptionRefused as refused:
        say(f"{command.before_refusal}{refused}")
        if command.usage_on_refusal:
            say(help_text(options))
        return FAILED
    except UsageRefused as refused:
        say(str(refused))
        say(help_text(options))
        return FAILED


def guarded(run: Callable[[], int], failed: Callable[[Exception], None]) -> int:
    """Every way in which a command can end, as an exit code."""
    # `nohup kafka-... &` starts with SIGINT ignored, and then nothing would end a consumer.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return nobody_reads()
    except (KafkaError, CannotReach, ClientError, CommandRefused) as problem:
        failed(problem)
        return FAILED
    except Unwritable as problem:
        failed(CommandRefused(f"what was given cannot be sent: {problem}"))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as problem:
        if problem.filename is not None:
            raise
        nobody_reads()
        say(f"Error: the output cannot be written: {problem.strerror or problem}")
        return FAILED
    except Exception as problem:
        if not _of_librdkafka(problem):
            raise
        failed(CommandRefused(str(problem)))
        return FAILED


def _of_librdkafka(problem: Exception) -> bool:
    """Asked without loading it: most commands have no use for it."""
    loaded = sys.modules.get("confluent_kafka")
    return loaded is not None and isinstance(problem, loaded.KafkaException)


def nobody_reads() -> int:
    """Whoever read our output has gone; the interpreter must not flush to them at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def print_version() -> None:
    """The protocol's version first: that is what scripts compare."""
    print(f"{KAFKA_VERSION} (Penstock {PENSTOCK_VERSION})")


def say(text: str) -> None:
    """Something that is not a result."""
    print(text, file=sys.stderr)


def say_no_effect(given: Given, **why: str) -> None:
    """For each of these options that was said: that it changes nothing here, and why."""
    for name, reason in why.items():
        option = name.replace("_", "-")
        if given.has(option):
            say(f"note: --{option} has no effect here: {reason}")


def message_of(problem: Exception) -> str:
    """What the server said, without our own dressing."""
    return problem.message if isinstance(problem, KafkaError) else str(problem)


def print_failure(problem: Exception) -> None:
    """For commands that have no sentence of their own around an error."""
    kind = f"{problem.kafka_name()}: " if isinstance(problem, KafkaError) else ""
    say(f"Error: {kind}{message_of(problem)}")


def require(given: Given, *names: str) -> None:
    for name in names:
        if not given.has(name):
            raise UsageRefused(f'Missing required argument "[{name}]"')


def exclude(given: Given, used: str, *others: str) -> None:
    """None of `others` beside `used`."""
    for other in others:
        if given.has(used) and given.has(other):
            raise UsageRefused(f'Option "[{used}]" can\'t be used with option "[{other}]"')


def one_action(given: Given, *names: str) -> str:
    """The one of these that was said."""
    said = [name for name in names if given.has(name)]
    if len(said) != 1:
        listed = ", ".join(f"--{name}" for name in names)
        raise UsageRefused(f"Command must include exactly one action: {listed}")
    return said[0]
