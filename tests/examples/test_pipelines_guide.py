"""docs/pipelines.md does what it says: its blocks are run, and print what stands below them."""

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.testing import Cluster

pytest_plugins = ["example_fixtures"]

GUIDE = Path(__file__).parents[2] / "docs" / "pipelines.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = "127.0.0.1:9092"  # what the guide calls it
COMMAND_SECONDS_MAX = 60


class Block(NamedTuple):
    """Code, its first line's number, and what it must print (None: not said)."""

    language: str
    code: str
    line: int
    printed: str | None


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    for match in BLOCK.finditer(text):
        language, code = match.groups()
        if language == "text":
            assert found, "output belongs to the code above it"
            found[-1] = found[-1]._replace(printed=code)
        elif language:
            found.append(Block(language, code, text.count("\n", 0, match.start()) + 2, None))
    return found


def run_shell(code: str, cluster: Cluster) -> str:
    surroundings = {
        **os.environ,
        "PENSTOCK_BOOTSTRAP": cluster.bootstrap,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    done = subprocess.run(
        ["sh", "-e", "-c", code],
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_python(block: Block, cluster: Cluster, names: dict[str, Any]) -> str:
    code = "\n" * (block.line - 1) + block.code.replace(NODE, cluster.bootstrap)
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, str(GUIDE), "exec"), names)
    return printed.getvalue()


@pytest.mark.usefixtures("example_spark")  # the one that the guide's session() finds
def test_every_block_runs_and_prints_what_the_guide_shows(
    example_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        for block in blocks(GUIDE.read_text()):
            if block.language == "sh":
                printed = run_shell(block.code, example_cluster)
            else:
                printed = run_python(block, example_cluster, names)
            if block.printed is not None:
                assert printed.rstrip() == block.printed.rstrip(), f"{GUIDE.name}:{block.line}"
    finally:
        names.clear()  # the producer in it goes before its node does


def test_the_guide_shows_code_and_output() -> None:
    found = blocks(GUIDE.read_text())
    assert {"sh", "python"} == {each.language for each in found}
    assert sum(each.printed is not None for each in found) >= 5
