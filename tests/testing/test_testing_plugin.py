"""The fixtures that the package brings."""

import pytest

from penstock.testing import Cluster

SEEN: set[str] = set()


@pytest.mark.parametrize("_word", ["a/b", "a-b", "ä"])
@pytest.mark.parametrize("_long", ["", "x" * 300])
def test_every_test_has_a_topic_of_its_own(penstock_topic: str, _word: str, _long: str) -> None:
    assert penstock_topic not in SEEN
    SEEN.add(penstock_topic)


def test_names_end_with_a_number(
    penstock_cluster: Cluster, penstock_topic: str, request: pytest.FixtureRequest
) -> None:
    assert penstock_cluster.bootstrap.startswith("127.0.0.1:")
    name, _, number = penstock_topic.rpartition("-")
    assert name == request.node.name
    assert number.isdecimal()
