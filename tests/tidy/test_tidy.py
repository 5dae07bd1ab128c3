"""The lines that keep the code readable, held by a test for each rule."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hypothesis import settings
from source_tree import ALL, IN_SOURCE, IN_TESTS, SOURCE, name_of, sources, text_of, tree_of

from penstock.broker.handlers import HANDLERS

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

# Named exceptions, each with its reason.
LONG_FUNCTIONS: dict[str, str] = {}
STATEFUL_ROOMS = (
    "broker",
    "controller",
    "coordinator",
    "machine",
    "raft",
    "replication",
    "log",
    "node",
)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each function of a file, with its number of lines."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name_of(path)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def test_a_file_has_one_topic_and_at_most_700_lines() -> None:
    lines = {name_of(path): len(text_of(path).splitlines()) for path in ALL}
    assert {name: count for name, count in lines.items() if count > FILE_LINES_MAX} == {}


def test_a_function_fits_on_a_screen() -> None:
    long = {
        function: lines
        for path in ALL
        for function, lines in functions(path)
        if lines > FUNCTION_LINES_MAX
    }
    assert long.keys() == LONG_FUNCTIONS.keys(), long


def _sets(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield each loop's certain set: a literal, a comprehension, a call of set or frozenset."""
    for node in ast.walk(tree):
        iterated = None
        if isinstance(node, ast.For | ast.comprehension):
            iterated = node.iter
        match iterated:
            case ast.Set() | ast.SetComp():
                yield iterated
            case ast.Call(func=ast.Name(id="set" | "frozenset")):
                yield iterated


def test_no_order_of_a_set_reaches_an_effect() -> None:
    rooms = [SOURCE / room for room in STATEFUL_ROOMS]
    paths = sources(*rooms)
    found = [f"{name_of(path)}:{each.lineno}" for path in paths for each in _sets(tree_of(path))]
    assert found == []


def test_the_list_of_handlers_is_the_list_of_files() -> None:
    files = {path.stem for path in (SOURCE / "broker" / "handlers").glob("k*.py")}
    assert set(HANDLERS.values()) == files


def test_a_handler_file_is_named_after_its_key() -> None:
    assert all(int(name[1:].split("_")[0]) == key for key, name in HANDLERS.items())


def test_no_test_sleeps() -> None:
    calls = re.compile(r"\b(?:time|asyncio)\.sleep\(")
    sleeping = [name_of(path) for path in IN_TESTS if calls.search(text_of(path))]
    assert sleeping == []


def test_every_room_opens_with_what_it_is() -> None:
    assert [name_of(path) for path in IN_SOURCE if not ast.get_docstring(tree_of(path))] == []


def test_property_tests_have_no_deadline_on_a_busy_machine() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
