"""The files that the tidy tests read, each of them read and parsed once."""

import ast
import gc
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
TESTS = ROOT / "tests"
BESIDE = ("tests", "bench", "chaos", "compat", "examples")
TOP = "."  # the room of the files that are in no folder


def sources(*roots: Path) -> list[Path]:
    """Return the Python files below the roots, sorted."""
    return sorted(path for root in roots for path in root.rglob("*.py"))


def name_of(path: Path) -> str:
    """Return the path as messages show it."""
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT).as_posix()


def room_of(path: Path) -> str:
    """Return the folder of `src/penstock` that holds the file."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else TOP


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    tree = ast.parse(text_of(path), str(path))
    gc.freeze()  # trees stay: walking them again and again costs the collector twice the parsing
    return tree


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a file, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


ALL = sources(SOURCE, *(ROOT / each for each in BESIDE))
IN_SOURCE = sources(SOURCE)
IN_TESTS = sources(TESTS)
