"""The lines that keep the code readable, held by a test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from penstock.broker.handlers import HANDLERS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "base"}

# Named exceptions, each with its reason.
LONG_FUNCTIONS: dict[str, str] = {}
STATEFUL_ROOMS = ("broker", "controller", "machine", "raft", "replication", "log", "node.py")


def sources(*roots: Path) -> list[Path]:
    return sorted(path for root in roots for path in root.rglob("*.py"))


BESIDE = ("tests", "bench", "chaos", "compat", "examples")
ALL = sources(SOURCE, *(ROOT / each for each in BESIDE))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT).as_posix()


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_a_file_has_one_topic_and_at_most_700_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    long = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{name_of(path)}:{node.name}"
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX and place not in LONG_FUNCTIONS:
                long.append(f"{place} has {lines} lines")
    assert not long


def test_every_exception_to_the_length_of_functions_is_still_needed() -> None:
    for place in LONG_FUNCTIONS:
        file, _, function = place.partition(":")
        tree = ast.parse((SOURCE / file).read_text())
        lines = [
            (node.end_lineno or 0) - node.lineno + 1
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == function
        ]
        assert lines and max(lines) > FUNCTION_LINES_MAX, place


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [path for path in sources(SOURCE) if path.stem in VAGUE_NAMES] == []


def _sets(tree: ast.AST) -> Iterator[ast.AST]:
    """What is certainly a set: a literal, a comprehension, or a call of set and frozenset."""
    for node in ast.walk(tree):
        iterated = None
        if isinstance(node, ast.For | ast.comprehension):
            iterated = node.iter
        match iterated:
            case ast.Set() | ast.SetComp():
                yield iterated
            case ast.Call(func=ast.Name(id="set" | "frozenset")):
                yield iterated


@pytest.mark.parametrize("room", STATEFUL_ROOMS)
def test_no_order_of_a_set_reaches_an_effect(room: str) -> None:
    paths = [SOURCE / room] if room.endswith(".py") else sources(SOURCE / room)
    found = [
        f"{name_of(path)}:{getattr(each, 'lineno', 0)}"
        for path in paths
        for each in _sets(ast.parse(path.read_text()))
    ]
    assert found == []


def test_the_list_of_handlers_is_the_list_of_files() -> None:
    files = {path.stem for path in (SOURCE / "broker" / "handlers").glob("k*.py")}
    assert set(HANDLERS.values()) == files


def test_a_handler_file_is_named_after_its_key() -> None:
    assert all(int(name[1:3]) == key for key, name in HANDLERS.items())


@pytest.mark.parametrize("path", sources(ROOT / "tests"), ids=name_of)
def test_no_test_sleeps(path: Path) -> None:
    calls = re.findall(r"\b(?:time|asyncio)\.sleep\(", path.read_text())
    assert calls == [] or path == Path(__file__)


def test_every_room_opens_with_what_it_is() -> None:
    bare = [path for path in sources(SOURCE) if not ast.get_docstring(ast.parse(path.read_text()))]
    assert bare == []


def test_property_tests_have_no_deadline_on_a_busy_machine() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
