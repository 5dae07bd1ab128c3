"""The guides to the clients do what they say: their code is run, one block after the other."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from penstock.testing import Cluster
from penstock.testing.assertions import read_committed

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"


def run(guide: str, cluster: Cluster) -> str:
    """What its blocks print."""
    text = (GUIDES / guide).read_text()
    assert ADDRESS in text, "a guide names the address that is replaced here"
    names: dict[str, object] = {"__name__": "guide"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            code = "\n" * line + found[1].replace(ADDRESS, cluster.bootstrap)
            exec(compile(code, guide, "exec"), names)
    return printed.getvalue()


def test_the_guide_to_the_first_topic() -> None:
    with Cluster() as cluster:
        said = run("first-topic.md", cluster)
    assert said.count("Order(customer=") == 8  # four for each of its readers


def test_the_guide_to_exactly_once() -> None:
    with Cluster() as cluster:
        for topic in ("numbers", "doubles", "triples"):
            cluster.create_topic(topic)
        run("exactly-once.md", cluster)
        doubles = [each.value for each in read_committed(cluster.bootstrap, "doubles")]
        triples = [each.value for each in read_committed(cluster.bootstrap, "triples")]
    assert doubles == [b"%d" % (2 * number) for number in range(250)]
    assert triples == [b"0", b"3", b"6"]


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda path: path.name)
def test_every_link_of_a_guide_leads_somewhere(guide: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", guide.read_text()):
        if "://" not in link:
            assert (guide.parent / link).exists(), link
