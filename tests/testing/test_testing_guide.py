"""docs/testing.md does what it says: each of its examples is a file of tests, and is run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from guide_boxes import Box, boxes_of

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
RUN_SECONDS_MAX = 240


def module_of(box: Box) -> str:
    return f"test_line_{box.line}"


BOXES = [each for each in boxes_of(GUIDE) if each.is_run]
EXAMPLES = [each for each in BOXES if each.file_name is None]


class Ran(NamedTuple):
    """How the tests of each module ended: what they said if not well."""

    results: dict[str, list[str]]
    output: str


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of pytest over all of them, as a reader would put them into files."""
    directory = tmp_path_factory.mktemp("guide")
    for each in BOXES:
        numbered = "\n" * (each.line - 1) + each.code
        (directory / (each.file_name or f"{module_of(each)}.py")).write_text(numbered)
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
def test_an_example_of_the_guide_passes(ran: Ran, example: Box) -> None:
    assert ran.results.get(module_of(example)) == [], ran.output


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
