"""Generate the asyncio face of Admin from the blocking one: `make faces`.

The blocking classes are the source: their methods send the requests. `awaited` (admin/aio_calls.py)
runs a method on a thread of its client, with the same signature and docstring. The generator lists
the methods under `@limited`. The output is committed, and a test compares it with a new run.
"""

import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
ROOM = "penstock.client.admin"
HEADER = '''"""{summary}

Generated from {sources} by tools/faces.py; `make faces` writes this file again.
{more}"""
'''
LIMITS = """
The calls of one client run on one thread of its own, one after the other. Each has the time limit
of blocking.Admin; `asyncio.timeout` sets a shorter one. A cancelled call leaves the client usable.
"""
# Attribute of Admin, module, class.
PARTS = (
    ("groups", "groups", "Groups"),
    ("transactions", "transactions", "Transactions"),
    ("reassignments", "reassignments", "Reassignments"),
    ("log_dirs", "log_dirs", "LogDirs"),
    ("quorum", "quorum", "MetadataQuorum"),
    ("features", "features", "Features"),
    ("acls", "acls", "Acls"),
    ("quotas", "quotas", "Quotas"),
    ("scram", "scram_credentials", "ScramCredentials"),
    ("tokens", "delegation_tokens", "DelegationTokens"),
)
ADMIN = '''
class Admin(AioPart[blocking.Admin]):
    """An admin client for asyncio. Any task of one event loop may use it.

    Close it, or use it in an `async with`.
    """

    {constructor}
        admin = blocking.Admin({arguments})
        super().__init__(Calls(admin.limit, "penstock-admin"), admin)
        {parts}

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        limit_s = INTERRUPTED_SECONDS_MAX if is_interruption(error) else CLOSE_TIMEOUT_S
        await self._calls.close(self._blocking.close, limit_s)

    async def close(self) -> None:
        """End all connections; calls under way raise ClientClosed."""
        await self._calls.close(self._blocking.close)

    {brokers}
        return self._blocking.brokers

'''
PART = '''
class {name}(AioPart[{module}.{name}]):
    """`Admin.{attribute}` for asyncio: {module}.{name}, awaited."""

'''
METHOD = "    {method} = awaited({module}.{name}.{method})\n"


@dataclass(frozen=True, slots=True)
class BlockingClass:
    """A class of the blocking face, with the names that its module can see."""

    module: str
    text: str
    tree: ast.Module
    body: ast.ClassDef

    @classmethod
    def read(cls, module: str, name: str) -> "BlockingClass":
        text = (SOURCE / ROOM.replace(".", "/") / f"{module}.py").read_text()
        tree = ast.parse(text)
        found = next(
            each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name
        )
        return cls(module, text, tree, found)

    def methods(self) -> Iterator[ast.FunctionDef]:
        """Yield the public methods that are one call each."""
        for each in self.body.body:
            if isinstance(each, ast.FunctionDef) and "limited" in map(
                ast.unparse, each.decorator_list
            ):
                yield each

    def method(self, name: str) -> ast.FunctionDef:
        return next(
            each
            for each in self.body.body
            if isinstance(each, ast.FunctionDef) and each.name == name
        )

    def docstring_of(self, method: ast.FunctionDef) -> str:
        """Return the docstring as it is written, with its quotes."""
        return ast.get_source_segment(self.text, method.body[0]) or ""

    def imports_for(self, method: ast.FunctionDef) -> Iterator[str]:
        """Yield an import for every name of the signature."""
        origins = {
            alias.asname or alias.name: f"from {each.module} import {alias.name}"
            for each in ast.walk(self.tree)
            if isinstance(each, ast.ImportFrom)
            for alias in each.names
        }
        signature = [method.args, *([method.returns] if method.returns else [])]
        for part in signature:
            for each in ast.walk(part):
                if isinstance(each, ast.Name) and not hasattr(builtins, each.id):
                    here = f"from {ROOM}.{self.module} import {each.id}"
                    yield origins.get(each.id, here)


def generate() -> dict[Path, str]:
    """Return the text of each generated file."""
    room = SOURCE / ROOM.replace(".", "/")
    return {
        path: _format(text)
        for path, text in ((room / "aio.py", _admin()), (room / "aio_parts.py", _parts()))
    }


def _admin() -> str:
    source = BlockingClass.read("blocking", "Admin")
    constructor, brokers = source.method("__init__"), source.method("brokers")
    positional = [each.arg for each in constructor.args.posonlyargs[1:]]
    named = [f"{each.arg}={each.arg}" for each in constructor.args.kwonlyargs]
    parts = [
        f"self.{attribute} = {name}(self._calls, admin.{attribute})" for attribute, _, name in PARTS
    ]
    body = ADMIN.format(
        constructor=_signature(source, constructor),
        arguments=", ".join([*positional, *named, "**unknown"]),
        parts="\n        ".join(parts),
        brokers="@property\n    " + _signature(source, brokers),
    )
    imports = [
        f"from {ROOM} import blocking",
        f"from {ROOM}.aio_calls import CLOSE_TIMEOUT_S, AioPart, Calls, awaited",
        "from penstock.client.runtime.interruption import INTERRUPTED_SECONDS_MAX, is_interruption",
        *(f"from {ROOM}.aio_parts import {name}" for _, _, name in PARTS),
        *source.imports_for(constructor),
        *source.imports_for(brokers),
    ]
    summary = "Administration for asyncio: the calls of blocking.Admin, awaited."
    header = HEADER.format(summary=summary, sources="blocking.py", more=LIMITS)
    return _module(header, imports, [(source, body)])


def _parts() -> str:
    imports = [f"from {ROOM}.aio_calls import AioPart, awaited"]
    classes = []
    for attribute, module, name in PARTS:
        imports.append(f"from {ROOM} import {module}")
        source = BlockingClass.read(module, name)
        classes.append((source, PART.format(name=name, module=module, attribute=attribute)))
    summary = "Parts of Admin for asyncio: the calls of the blocking parts, awaited."
    header = HEADER.format(summary=summary, sources="the blocking parts", more="")
    return _module(header, imports, classes)


def _module(header: str, imports: list[str], classes: list[tuple[BlockingClass, str]]) -> str:
    body = ""
    for source, opening in classes:
        body += opening
        for method in source.methods():
            body += METHOD.format(module=source.module, name=source.body.name, method=method.name)
    return "\n".join([header, *sorted(set(imports)), body])


def _signature(source: BlockingClass, method: ast.FunctionDef) -> str:
    returns = ast.unparse(method.returns) if method.returns else "None"
    docstring = source.docstring_of(method)
    return f"def {method.name}({ast.unparse(method.args)}) -> {returns}:\n        {docstring}"


def _format(text: str) -> str:
    """Return the text with sorted imports, in the layout of the other files."""
    ruff = (sys.executable, "-m", "ruff")
    name = ("--stdin-filename", str(SOURCE / "penstock" / "face.py"), "-")
    for command in (("check", "--quiet", "--fix-only", "--select", "I"), ("format",)):
        text = subprocess.run(
            [*ruff, *command, *name], input=text, text=True, stdout=subprocess.PIPE, check=True
        ).stdout
    return text


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text)
