"""The mark of tests that run against one node and against three."""

import pytest

ALSO_ON_THREE = pytest.mark.parametrize(
    "disk_cluster", ["one_node", "three_nodes"], ids=["one", "three"], indirect=True
)
