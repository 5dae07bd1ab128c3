"""Data on a disk is for the user of the node, and for its group only on request."""

import os
from pathlib import Path

import pytest

from penstock.config.broker import BrokerConfig
from penstock.formatting import format_directories
from penstock.testing import Cluster

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def _modes(root: Path) -> tuple[set[str], set[str]]:
    """Of the directories and of the files."""
    directories = {oct(root.stat().st_mode & 0o777)}
    files = set()
    for place, names, inside in os.walk(root):
        directories |= {oct(Path(place, each).stat().st_mode & 0o777) for each in names}
        files |= {oct(Path(place, each).stat().st_mode & 0o777) for each in inside}
    return directories, files


@pytest.mark.parametrize(
    ("settings", "modes"),
    [
        ({}, ({"0o700"}, {"0o600"})),
        ({"log.dirs.group.access": True}, ({"0o750"}, {"0o640"})),
    ],
)
def test_new_directories_and_files_are_private_unless_the_group_may_read(
    tmp_path: Path, settings: dict[str, bool], modes: tuple[set[str], set[str]]
) -> None:
    root = tmp_path / "data"
    with Cluster(settings, data=root) as cluster:
        cluster.create_topic("t", 2)
    assert _modes(root) == modes


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir(mode=0o755)
    with Cluster(data=root) as cluster:
        cluster.create_topic("t")
    assert root.stat().st_mode & 0o777 == 0o755
    assert (root / "t-0").stat().st_mode & 0o777 == 0o700


def test_formatted_directories_are_private(tmp_path: Path) -> None:
    root = tmp_path / "data"
    format_directories(BrokerConfig.of({"log.dirs": str(root)}), CLUSTER_ID)
    assert _modes(root) == ({"0o700"}, {"0o600"})


@pytest.mark.parametrize(
    ("access", "mode"), [("false", 0o700), ("true", 0o750)], ids=["private", "group"]
)
def test_missing_parents_of_a_directory_get_the_same_mode(
    tmp_path: Path, access: str, mode: int
) -> None:
    parent = tmp_path / "data" / "disks"
    dirs = f"{parent}/a,{parent}/b"
    config = BrokerConfig.of({"log.dirs": dirs, "log.dirs.group.access": access})
    format_directories(config, CLUSTER_ID)
    for each in (parent.parent, parent, parent / "a", parent / "b"):
        assert each.stat().st_mode & 0o777 == mode
