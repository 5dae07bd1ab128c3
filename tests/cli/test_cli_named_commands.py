"""Every command that a text names is there, with the options that it is named with.

Texts are: what to do about an error, the README, the documents, and every text in the code, help
and error messages among them. A script in a document may go on with other programs.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

import penstock
from penstock.cli.kafka.__main__ import NAMES
from penstock.cli.kafka.framework.runner import Command
from penstock.cli.main import app
from penstock.client.failures import LOCAL_BY_CODE, NEXT_STEPS

ROOT = Path(__file__).parents[2]
SOURCE = Path(penstock.__file__).parent
SPAN = re.compile(r"`{1,2}([^`\n]+(?:\n[^`\n]+)?)`{1,2}")
FENCE = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"(?:^|[|&;(]\s*|\$ )(?:bin/)?(?P<name>penstock|kafka-[a-z-]+)(?:\.sh)?"
    r"(?P<rest>(?: [^|&;()#\n]*(?:\|[a-z-]+)*)*)",
    re.MULTILINE,
)
# A script that the others share, and a client.
NO_COMMANDS = {"kafka-run", "kafka-python"}
# What Kafka has and Penstock has not; texts say so, or speak of a Kafka that runs elsewhere.
OF_KAFKA_ONLY = {
    "kafka-features",
    "kafka-groups",
    "kafka-share-groups",
    "kafka-streams-groups",
    "kafka-delegation-tokens",
    "kafka-client-metrics",
    "kafka-replica-verification",
}


class Named(NamedTuple):
    where: str
    text: str


def named_in(where: str, text: str) -> Iterator[Named]:
    if "penstock" not in text and "kafka-" not in text:
        return
    blocks = FENCE.findall(text)
    spans = SPAN.findall(FENCE.sub("", text))
    for block in (*blocks, *spans):
        joined = block.replace("\\\n", " ").replace("\n", " ") if block in spans else block
        for found in COMMAND.finditer(joined.replace("\\\n", " ")):
            yield Named(where, found["name"] + (found["rest"] or "").rstrip())


def texts_of(path: Path) -> Iterator[str]:
    """The texts in a module, pieces put together; what is filled in later is `{}`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )


@cache
def everything() -> list[Named]:
    found: list[Named] = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        found += named_in(str(path.relative_to(ROOT)), path.read_text())
    for path in sorted(SOURCE.rglob("*.py")):
        for text in texts_of(path):
            found += named_in(str(path.relative_to(SOURCE)), text)
    for step in NEXT_STEPS.values():
        found += named_in("next steps", step)
    for each in LOCAL_BY_CODE.values():
        found += named_in("local failures", each.next_step)
    return list(dict.fromkeys(found))


@cache
def penstock_command() -> Any:
    return get_command(app)


def problem_with(text: str) -> str | None:
    try:
        name, *words = shlex.split(text)
    except ValueError:
        name, *words = text.split()
    if name == "penstock":
        return problem_below(penstock_command(), words)
    if name in OF_KAFKA_ONLY | NO_COMMANDS:
        return None
    return options_missing(name, words) if name in NAMES else f"there is no {name}"


def options_missing(name: str, words: list[str]) -> str | None:
    module = import_module(f"penstock.cli.kafka.{name.removeprefix('kafka-').replace('-', '_')}")
    if not isinstance(module.main, Command):
        return None
    known = {f"--{option.name}" for option in module.main.all_options}
    missing = [each for each in options_in(words) if each not in known]
    return f"it has no {missing}" if missing else None


def options_in(words: list[str]) -> list[str]:
    return [
        each.partition("=")[0] for each in words if re.match(r"--?[a-zA-Z]", each) and each != "-"
    ]


def problem_below(command: Any, words: list[str]) -> str | None:
    """Walks down the nouns and verbs; `a|b` are both meant."""
    here = dict(enumerate(words))
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    known |= {"--help"}
    takes = {
        name: not (each.is_flag or each.count)
        for each in command.params
        if each.param_type_name == "option"
        for name in each.opts
    }
    at = 0
    while at < len(words):
        word = here[at]
        if options_in([word]):
            name = options_in([word])[0]
            if name not in known:
                return f"{command.name} has no {name}"
            at += 2 if takes.get(name, False) and "=" not in word else 1
            continue
        if not hasattr(command, "commands"):
            at += 1
            continue
        for each in word.split("|"):
            if not re.fullmatch(r"[a-z-]+", each):
                return None
            if each not in command.commands:
                return f"{command.name} has no {each}"
            problem = problem_below(command.commands[each], words[at + 1 :])
            if problem is not None:
                return problem
        return None
    return None


def test_commands_are_found_in_texts() -> None:
    found = {each.text for each in everything()}
    assert len(found) > 100
    assert {"penstock topic create", "penstock group describe"} <= found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("penstock topic show", "topic has no show"),
        ("penstock topic list --wide", "list has no --wide"),
        ("penstock --bootstrap x topic shw", "topic has no shw"),
        ("penstock log dirs|move|dumb", "log has no dumb"),
        ("kafka-topics --make", "it has no ['--make']"),
        ("kafka-topix --list", "there is no kafka-topix"),
        ("penstock config set --group NAME", None),
        ("kafka-topics --list", None),
    ],
)
def test_a_command_that_is_not_there_is_found(text: str, told: str | None) -> None:
    assert problem_with(text) == told


def test_every_command_that_a_text_names_is_there() -> None:
    wrong = [
        f"{each.where}: {each.text}: {why}"
        for each in everything()
        if (why := problem_with(each.text))
    ]
    assert not wrong, "\n".join(wrong)
