"""kafka-storage format for clusters of several nodes, and starts without it."""

from pathlib import Path

import pytest
from kafka_running import Ran, ran

from penstock.broker.metadata.bootstrap_files import FIRST_SNAPSHOT, read_bootstrap
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.metadata.snapshot_files import read_snapshot
from penstock.broker.metadata.storage_format import load_meta_properties
from penstock.model import id_to_text
from penstock.raft.snapshot import Snapshot
from penstock.real.world import RealWorld

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAABQ"
ONE, TWO, THREE = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA"
CONTROLLERS = f"1@127.0.0.1:9193:{ONE},2@127.0.0.1:9293:{TWO},3@127.0.0.1:9393:{THREE}"
QUORUM = f"{METADATA_DIRECTORY}/{FIRST_SNAPSHOT.file_name}"

BOTH = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
ROLES = {"broker,controller": BOTH, "broker": BOTH.partition(",")[0]}
DYNAMIC = "controller.quorum.bootstrap.servers=127.0.0.1:9193,127.0.0.1:9293"
STATIC = "controller.quorum.voters=1@127.0.0.1:9193,2@127.0.0.1:9293"
SET_TWICE = (
    "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
    "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and "
    "specify controller.quorum.bootstrap.servers instead."
)


class NodeFiles:
    """A node's properties file and its two data directories."""

    def __init__(
        self,
        place: Path,
        *,
        node_id: int = 1,
        roles: str = "broker,controller",
        quorum: str = DYNAMIC,
    ) -> None:
        self.data = place / str(node_id)
        self.config = place / f"{node_id}.properties"
        self.config.write_text(
            f"process.roles={roles}\nnode.id={node_id}\nlisteners={ROLES[roles]}\n"
            f"controller.listener.names=CONTROLLER\nmetrics.listener=\n{quorum}\n"
            f"log.dirs={self.data}/a,{self.data}/b\n"
        )

    def format(self, *arguments: str, cluster: str = CLUSTER) -> Ran:
        return ran("storage", "format", "-t", cluster, "-c", str(self.config), *arguments)

    def start(self) -> Ran:
        return ran("server-start", str(self.config))

    def files(self) -> list[str]:
        found = (path for path in self.data.rglob("*") if path.is_file() and path.name != ".lock")
        return sorted(str(path.relative_to(self.data)) for path in found)

    def quorum(self) -> Snapshot:
        world = RealWorld()
        try:
            return read_snapshot(world.disk(str(self.data / "a")), QUORUM, FIRST_SNAPSHOT)
        finally:
            world.close()

    def directory_id(self, name: str) -> str:
        world = RealWorld()
        try:
            found = load_meta_properties(world.disk(str(self.data / name)))
        finally:
            world.close()
        assert found is not None, "the directory is formatted"
        return id_to_text(found.directory_id)


WITHOUT_QUORUM = ["a/bootstrap.checkpoint", "a/meta.properties"]
WITHOUT_QUORUM += ["b/bootstrap.checkpoint", "b/meta.properties"]
WITH_QUORUM = [f"a/{QUORUM}", *WITHOUT_QUORUM]


def test_three_controllers_get_one_voter_set_and_the_directory_ids_it_names(
    tmp_path: Path,
) -> None:
    nodes = [NodeFiles(tmp_path, node_id=number) for number in (1, 2, 3)]
    for node in nodes:
        assert node.format("--initial-controllers", CONTROLLERS).lines == [
            f"Formatting dynamic metadata voter directory {node.data}/a with metadata.version "
            "4.3-IV0.",
            f"Formatting data directory {node.data}/b with metadata.version 4.3-IV0.",
        ]
        assert node.files() == WITH_QUORUM
    quorums = [node.quorum() for node in nodes]
    assert {quorum.kraft_version for quorum in quorums} == {1}
    assert quorums[0].voters == quorums[1].voters == quorums[2].voters
    assert [node.directory_id("a") for node in nodes] == [ONE, TWO, THREE]
    assert [id_to_text(each.directory_id) for each in quorums[0].voters] == [ONE, TWO, THREE]
    assert nodes[0].directory_id("b") != ONE


def test_a_controller_beside_the_first_voters_knows_them(tmp_path: Path) -> None:
    node = NodeFiles(tmp_path, node_id=4)
    first = node.format("--initial-controllers", CONTROLLERS).lines[0]
    assert first.startswith("Formatting dynamic metadata directory ")
    assert len(node.quorum().voters) == 3
    assert node.directory_id("a") not in CONTROLLERS


@pytest.mark.parametrize(
    ("roles", "quorum", "option"),
    [
        ("broker,controller", DYNAMIC, ("--no-initial-controllers",)),
        ("broker,controller", STATIC, ()),
        ("broker,controller", STATIC, ("--no-initial-controllers",)),
        ("broker,controller", STATIC, ("--feature", "kraft.version=0")),
        ("broker", DYNAMIC, ()),
        ("broker", DYNAMIC, ("--no-initial-controllers",)),
        ("broker", DYNAMIC, ("--feature", "kraft.version=1")),
    ],
)
def test_a_node_without_first_voters_gets_no_quorum_snapshot(
    tmp_path: Path, roles: str, quorum: str, option: tuple[str, ...]
) -> None:
    node = NodeFiles(tmp_path, roles=roles, quorum=quorum)
    assert node.format(*option).lines == [
        f"Formatting metadata directory {node.data}/a with metadata.version 4.3-IV0.",
        f"Formatting data directory {node.data}/b with metadata.version 4.3-IV0.",
    ]
    assert node.files() == WITHOUT_QUORUM


@pytest.mark.parametrize(
    ("roles", "quorum", "arguments", "complaint"),
    [
        (
            "broker,controller",
            DYNAMIC,
            (),
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers.",
        ),
        ("broker", DYNAMIC, ("--standalone",), "You can only use --standalone on a controller."),
        ("broker,controller", STATIC, ("--standalone",), SET_TWICE),
        ("broker,controller", STATIC, ("--initial-controllers", CONTROLLERS), SET_TWICE),
        ("broker", STATIC.replace("1@", "9@"), ("--standalone",), SET_TWICE),
        (
            "broker,controller",
            DYNAMIC,
            ("--initial-controllers", CONTROLLERS, "--feature", "kraft.version=0"),
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the "
            "flags --standalone, --initial-controllers, or --no-initial-controllers is used. For "
            "dynamic controllers support, try removing the --feature flag for kraft.version.",
        ),
        (
            "broker,controller",
            STATIC,
            ("--feature", "kraft.version=1"),
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the "
            "flags --standalone, --initial-controllers, or --no-initial-controllers is used. For "
            "dynamic controllers support, try using one of --standalone, --initial-controllers, or "
            "--no-initial-controllers and removing controller.quorum.voters.",
        ),
        (
            "broker",
            DYNAMIC,
            ("--initial-controllers", CONTROLLERS),
            "--initial-controllers names node 1, whose process.roles has no controller. Add the "
            "role, or leave the node out.",
        ),
        (
            "broker,controller",
            STATIC,
            ("--release-version", "4.3", "--feature", "metadata.version=30"),
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
        ),
        (
            "broker,controller",
            STATIC,
            ("--feature", "share.version=1"),
            "Unsupported level 1 of feature share.version. Supported levels are: 0 to 0",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, roles: str, quorum: str, arguments: tuple[str, ...], complaint: str
) -> None:
    node = NodeFiles(tmp_path, roles=roles, quorum=quorum)
    found = node.format(*arguments)
    assert (found.code, found.complaint) == (1, complaint)
    assert node.files() == []


@pytest.mark.parametrize(
    "option", [("--standalone", "--no-initial-controllers"), ("-s", "-I", CONTROLLERS)]
)
def test_only_one_way_to_name_the_first_voters_is_taken(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    found = NodeFiles(tmp_path).format(*option)
    assert found.code == 1
    assert "not allowed with argument" in found.err


def test_features_that_a_mixed_cluster_does_without_may_be_named(tmp_path: Path) -> None:
    node = NodeFiles(tmp_path)
    assert node.format("-s", "-f", "share.version=0", "-f", "streams.version=0").code == 0
    world = RealWorld()
    names = [each.name for each in read_bootstrap(world.disk(str(node.data / "a")))]
    world.close()
    assert names == [
        "metadata.version",
        "eligible.leader.replicas.version",
        "group.version",
        "transaction.version",
    ]


def test_a_new_directory_of_a_formatted_node_is_formatted(tmp_path: Path) -> None:
    node = NodeFiles(tmp_path)
    node.format("--initial-controllers", CONTROLLERS)
    for path in (node.data / "b").iterdir():
        path.unlink()
    again = node.format("--initial-controllers", CONTROLLERS, "--ignore-formatted")
    assert again.lines == [
        f"Formatting data directory {node.data}/b with metadata.version 4.3-IV0."
    ]
    assert node.directory_id("a") == ONE


def test_a_controller_that_lost_its_metadata_directory_is_not_formatted_again(
    tmp_path: Path,
) -> None:
    node = NodeFiles(tmp_path)
    node.format("--initial-controllers", CONTROLLERS)
    (node.data / "a").rename(tmp_path / "lost")
    found = node.format("--initial-controllers", CONTROLLERS, "--ignore-formatted")
    assert found.code == 1
    assert "could vote twice in one epoch" in found.complaint


def test_a_broker_that_lost_its_metadata_directory_is_formatted_again(tmp_path: Path) -> None:
    node = NodeFiles(tmp_path, roles="broker")
    node.format()
    before = node.directory_id("b")
    (node.data / "a").rename(tmp_path / "lost")
    assert node.format("--ignore-formatted").code == 0
    assert node.files() == WITHOUT_QUORUM
    assert node.directory_id("b") == before


def test_directories_of_another_cluster_stay_as_they_are(tmp_path: Path) -> None:
    node = NodeFiles(tmp_path)
    node.format("--no-initial-controllers")
    found = node.format("--no-initial-controllers", "--ignore-formatted", cluster=OTHER_CLUSTER)
    assert found.code == 1
    assert f"belongs to cluster {CLUSTER}, not {OTHER_CLUSTER}" in found.complaint


@pytest.mark.parametrize(
    ("roles", "quorum", "voters"),
    [
        ("broker,controller", DYNAMIC, True),
        ("broker,controller", STATIC, False),
        ("broker", DYNAMIC, False),
    ],
)
def test_a_node_of_a_cluster_does_not_start_without_a_format(
    tmp_path: Path, roles: str, quorum: str, voters: bool
) -> None:
    node = NodeFiles(tmp_path, roles=roles, quorum=quorum)
    found = node.start()
    assert found.code == 1
    assert "Run `kafka-storage format --cluster-id ID --config FILE` first" in found.err
    assert ("--initial-controllers" in found.err) == voters
    assert node.files() == []
