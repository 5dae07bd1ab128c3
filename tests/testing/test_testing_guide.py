"""docs/testing.md does what it says: each of its examples is a file of tests, and is run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_SECONDS_MAX = 240
CONFTEST = "# conftest.py\n"


class Block(NamedTuple):
    """Code, and the number of the line above it."""

    code: str
    line: int

    @property
    def module(self) -> str:
        return f"test_line_{self.line}"


def blocks() -> list[Block]:
    text = GUIDE.read_text()
    return [
        Block(found[1], text.count("\n", 0, found.start()) + 1) for found in BLOCK.finditer(text)
    ]


EXAMPLES = [each for each in blocks() if not each.code.startswith(CONFTEST)]


class Ran(NamedTuple):
    """How the tests of each module ended: what they said if not well."""

    results: dict[str, list[str]]
    output: str


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of pytest over all of them, as a reader would put them into files."""
    directory = tmp_path_factory.mktemp("guide")
    for each in blocks():
        if each.code.startswith(CONFTEST):
            (directory / "conftest.py").write_text(each.code)
        else:
            (directory / f"{each.module}.py").write_text("\n" * each.line + each.code)
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    surroundings.pop("PENSTOCK_TEST_BOOTSTRAP", None)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml", "ran.xml"],
        cwd=directory,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    results: dict[str, list[str]] = {}
    for case in ElementTree.parse(directory / "ran.xml").iter("testcase"):
        module = (case.get("classname") or case.get("name") or "").partition(".")[0]
        results.setdefault(module, []).extend(
            problem.get("message") or "failed" for problem in case
        )
    return Ran(results, ended.stdout + ended.stderr)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"line {each.line}")
def test_an_example_of_the_guide_passes(ran: Ran, example: Block) -> None:
    assert ran.results.get(example.module) == [], ran.output


def test_the_guide_has_an_example_for_each_client() -> None:
    text = GUIDE.read_text()
    for client in ("confluent-kafka", "aiokafka", "kafka-python", "FastStream"):
        section = text.partition(f"\n### {client}\n")[2].partition("\n### ")[0]
        assert "def test_" in section, client


def test_every_link_of_the_guide_leads_somewhere() -> None:
    text = GUIDE.read_text()
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in titles}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        assert not path or (GUIDE.parent / path).exists(), link
        assert path or anchor in anchors, link
