"""Every box of every guide is run as printed, by one reader on one node, guide after guide."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from guide_boxes import GUIDES, RUN, SHOWN, boxes_of
from guide_course import ON_SPARK, SHARED_NODE, WITHOUT_SPARK, check_reading, follow

from penstock.testing import Cluster


@pytest.mark.timeout(900)
def test_a_reader_of_the_guides_without_spark_succeeds(tmp_path: Path) -> None:
    check_reading(WITHOUT_SPARK, tmp_path)


def test_some_guides_are_on_spark_and_some_are_not() -> None:
    assert ON_SPARK and WITHOUT_SPARK and len(ON_SPARK + WITHOUT_SPARK) == len(SHARED_NODE)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_every_box_has_a_language_that_says_whether_it_is_run(guide: Path) -> None:
    boxes = boxes_of(guide)
    assert guide.read_text().count("\n```") >= 2 * len(boxes)
    assert [each.place for each in boxes if each.language not in (*RUN, *SHOWN)] == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_every_link_of_a_guide_leads_somewhere(guide: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", guide.read_text()):
        if "://" not in link:
            assert (guide.parent / link).exists(), link


def test_a_box_knows_its_line_its_file_and_its_output(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(
        "one\n\n```python\n# a.py\nx = 1\n```\n\n```text\nnot ...\n```\n\n"
        "shown\n\n```text\ny\n```\n"
    )
    first, second = boxes_of(guide)
    assert (first.line, first.file_name, first.printed) == (4, "a.py", "not ...\n")
    assert first.shows("not this\n") and not first.shows("this\n")
    assert (second.language, second.is_run) == ("text", False)


def test_a_console_knows_its_commands_and_their_outputs(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text("```console\n$ make run\n$ one\nID    …  1\n...\nend\n\n$ two\n```\n")
    (box,) = boxes_of(guide)
    one, two = box.commands
    assert (box.is_run, one.line, two.line) == (True, "one", "two")
    assert one.shows("ID x-7  1\nend\n") and one.shows("ID x 1\nmore\nmore\nend\n")
    assert not one.shows("ID x y 1\nend\n") and not one.shows("ID x 1\nthe end\n")
    assert two.shows("") and not two.shows("a word\n")


@pytest.mark.parametrize(
    ("command", "problem"),
    [("echo one >&2", ""), ("echo two", "and not\none"), ("echo one; false", "fails")],
)
def test_a_reader_types_a_console_and_looks_at_both_its_outputs(
    tmp_path: Path, command: str, problem: str
) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(f"```console\n$ {command}\none\n```\n")
    problems = follow(guide, tmp_path / "reader", "127.0.0.1:1", "127.0.0.1:2")
    assert [problem in each for each in problems] == ([True] if problem else [])


def test_the_first_snippet_of_the_readme_can_be_pasted_into_an_interactive_python() -> None:
    """A blank line ends a block there."""
    readme = next(each for each in GUIDES if each.name == "README.md")
    box = next(each for each in boxes_of(readme) if each.language == "python")
    with Cluster() as cluster:
        done = subprocess.run(
            [sys.executable, "-i", "-q"],
            input=box.code.replace("127.0.0.1:9092", cluster.bootstrap),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert box.printed is not None and done.stdout == box.printed, done.stderr
