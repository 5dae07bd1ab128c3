"""Names of files and classes: each says one thing, and each thing has one.

A list that ends in `_LEFT` (ratchets.py) only gets shorter.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ratchets import HOMONYMS_LEFT, IMPORTED_TESTS_LEFT, SETTINGS_TWICE_LEFT
from source_tree import ALL, IN_SOURCE, IN_TESTS, SOURCE, name_of, room_of, tree_of

GENERICS = {
    *("Annotated", "Awaitable", "Callable", "Generator", "Iterable", "Iterator", "Literal"),
    *("Mapping", "Optional", "Sequence", "Union", "dict", "frozenset", "list", "set", "tuple"),
    "type",
}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "base"}
KAFKAS_NAMES = SOURCE / "wire"  # the classes of messages are named by Kafka

TWO_FACES = "the public class of the async and of the blocking face"
FACES = (
    "Acls",
    "Admin",
    "Consumer",
    "DelegationTokens",
    "Delivery",
    "Features",
    "Groups",
    "LogDirs",
    "MetadataQuorum",
    "Producer",
    "Quotas",
    "Reassignments",
    "ScramCredentials",
    "Transaction",
    "Transactions",
)
HOMONYMS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(FACES, (2, TWO_FACES)),
    "Broker": (2, "the broker of a node, and the public value that describes one to clients"),
}


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [name_of(path) for path in IN_SOURCE if path.stem in VAGUE_NAMES] == []


def alias_in(statement: ast.stmt) -> str | None:
    """Return the name of a type alias or of a NewType; None for any other statement."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
            return name
        case ast.Assign([ast.Name(id=name)], ast.Call(func=ast.Name(id="NewType"))):
            return name
        case ast.Assign([ast.Name(id=name)], ast.Subscript(ast.Name(id=generic))):
            return name if generic in GENERICS else None
        case ast.Assign([ast.Name(id=name)], ast.BinOp(op=ast.BitOr())):
            return None if name.isupper() else name
        case _:
            return None


def types() -> Iterator[tuple[str, str]]:
    """Yield each class and type alias with its file, but for the messages of the protocol."""
    for path in IN_SOURCE:
        if not path.is_relative_to(KAFKAS_NAMES):
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.ClassDef):
                    yield node.name, name_of(path)
            for statement in tree_of(path).body:
                alias = alias_in(statement)
                if alias is not None:
                    yield alias, name_of(path)


def test_a_type_alias_is_found() -> None:
    lines = """
        A: TypeAlias = int
        B = NewType("B", int)
        C = Callable[[int], None]
        Or = dict[str, int] | None
        e = names[0]
        F: int = 1
    """
    tree = ast.parse("\n".join(line.strip() for line in lines.splitlines()))
    assert [alias_in(each) for each in tree.body] == ["A", "B", "C", "Or", None, None]


def test_a_class_name_stands_for_one_class() -> None:
    places: dict[str, list[str]] = {}
    for name, file in types():
        places.setdefault(name, []).append(file)
    allowed = {name: count for name, (count, _) in HOMONYMS.items()} | HOMONYMS_LEFT
    trouble = []
    for name in sorted(places.keys() | allowed.keys()):
        count, most = len(places.get(name, [])), allowed.get(name, 1)
        if count > most:
            trouble.append(f"give {name} another name in one of {', '.join(places[name])}")
        elif count < most:
            trouble.append(f"put {name} at {count} in HOMONYMS_LEFT, or take it out if that is 1")
    assert trouble == [], "\n".join(trouble)


def test_a_room_has_one_file_of_settings() -> None:
    rooms = Counter(room_of(path) for path in IN_SOURCE if path.name == "settings.py")
    assert sorted(room for room, count in rooms.items() if count > 1) == SETTINGS_TWICE_LEFT


def imported(path: Path) -> Iterator[str]:
    """Yield the last part of the name of each module that a file imports."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.rpartition(".")[2]


def test_no_test_module_is_a_library_for_others() -> None:
    tests = {path.stem: name_of(path) for path in IN_TESTS if path.stem.startswith("test_")}
    found = {tests[name] for path in ALL for name in imported(path) if name in tests}
    assert sorted(found) == IMPORTED_TESTS_LEFT, "move what they share to a module of its own"
