"""Readers of whole guides on one node: the problems they meet, the names they use."""

from collections.abc import Iterable
from contextlib import closing
from itertools import combinations
from pathlib import Path
from random import Random

from fake_registry import FakeRegistry
from guide_boxes import GUIDES, Box, boxes_of
from guide_reader import free_port, reading
from node_names import state_of

from penstock.testing import Cluster

# Those with nodes of their own: tests/kafka_commands, tests/testing and
# test_guide_of_clusters.py run their boxes.
OWN_NODE = ("quickstart.md", "migrating.md", "testing.md", "cluster.md")
SHARED_NODE = [each for each in GUIDES if each.name not in OWN_NODE]
ON_SPARK = [
    each
    for each in SHARED_NODE
    if any(module in each.read_text() for module in ("penstock.spark", "penstock.streams"))
]
WITHOUT_SPARK = [each for each in SHARED_NODE if each not in ON_SPARK]
ORDER_SEED = 17


def check_reading(guides: Iterable[Path], directory: Path) -> None:
    """Read guides on one node in any order; fail if one breaks, or uses a name of another."""
    known = list(guides)
    problems: list[str] = []
    used: dict[str, set[str]] = {}
    metrics = f"127.0.0.1:{free_port()}"  # `penstock log status` asks the node for a set port
    with Cluster({"metrics.listener": metrics}) as cluster, closing(FakeRegistry()) as registry:
        addresses = cluster.bootstrap, registry.url.removeprefix("http://")
        for guide in Random(ORDER_SEED).sample(known, len(known)):
            before = state_of(cluster.bootstrap)
            problems += follow(guide, directory / guide.stem, *addresses)
            used[guide.name] = state_of(cluster.bootstrap).used_since(before)
    assert not problems, "\n".join(problems)
    for one, other in combinations(sorted(used), 2):
        assert used[one].isdisjoint(used[other]), (one, other, used[one] & used[other])


def follow(guide: Path, directory: Path, bootstrap: str, registry: str) -> list[str]:
    """Return what went wrong: the first box that did not do what the guide says."""
    directory.mkdir()
    box: Box | None = None
    try:
        with reading(directory, bootstrap, registry) as reader:
            for box in boxes_of(guide):
                reader.follow(box)
    except Exception as problem:
        return [f"{box.place if box else guide.name}: {problem!r}\n{problem}"]
    return []
