"""Data directories: formatting, and whose they are."""

import pytest
from metadata_world import ENDPOINT, MetadataWorld, Ticking

from penstock.broker.metadata.bootstrap_files import BOOTSTRAP, read_bootstrap
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.metadata.snapshot_files import read_snapshot
from penstock.broker.metadata.storage_format import (
    META_PROPERTIES,
    CopiedDirectory,
    MetadataMissing,
    MetaProperties,
    MetaPropertiesCorrupt,
    NotFormatted,
    StorageError,
    WrongCluster,
    WrongNode,
    load_meta_properties,
    open_directories_now,
)
from penstock.model import id_to_text
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.testing.sim.disk import SimDisk

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
FIRST = MetadataSnapshotId(0, 0)


def open_them(
    *disks: SimDisk,
    node_id: int = 1,
    cluster_id: str | None = None,
    sole_voter: bool = True,
    is_controller: bool = True,
    static_voters: bool = False,
    seed: int = 1,
) -> list[MetaProperties]:
    ticking = Ticking(seed)
    return open_directories_now(
        disks,
        node_id=node_id,
        cluster_id=cluster_id,
        sole_voter=sole_voter,
        endpoint=ENDPOINT,
        clock=ticking,
        entropy=ticking,
        is_controller=is_controller,
        static_voters=static_voters,
    )


def test_formatting_writes_what_kafka_would() -> None:
    disk = SimDisk(1)
    (meta,) = open_them(disk, cluster_id=CLUSTER_ID)
    files = disk.files()
    path = f"{METADATA_DIRECTORY}/{FIRST.file_name}"
    assert sorted(files) == sorted([BOOTSTRAP, META_PROPERTIES, path])
    lines = files[META_PROPERTIES].decode().splitlines()
    directory_id = id_to_text(meta.directory_id)
    assert set(lines) == {
        "#",
        "node.id=1",
        f"directory.id={directory_id}",
        "version=1",
        f"cluster.id={CLUSTER_ID}",
    }
    snapshot = read_snapshot(disk, path, FIRST)
    assert (snapshot.kraft_version, list(snapshot.values)) == (1, [])
    assert snapshot.voters[0].directory_id == meta.directory_id
    names = {record.name: record.feature_level for record in read_bootstrap(disk)}
    assert names == {
        "metadata.version": 30,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }


def test_without_a_cluster_id_a_new_one_is_drawn() -> None:
    (meta,) = open_them(SimDisk(1))
    assert len(meta.cluster_id) == 22


def test_opening_again_changes_nothing() -> None:
    disk = SimDisk(1)
    first = open_them(disk)
    files = disk.files()
    assert open_them(disk) == first
    assert disk.files() == files


def test_several_directories_have_ids_of_their_own() -> None:
    disks = [SimDisk(seed) for seed in range(3)]
    metas = open_them(*disks)
    assert len({meta.directory_id for meta in metas}) == 3
    assert len({meta.cluster_id for meta in metas}) == 1
    assert not disks[1].exists(METADATA_DIRECTORY)


def test_an_empty_directory_can_be_added_later() -> None:
    first, second = SimDisk(1), SimDisk(2)
    (before,) = open_them(first)
    metas = open_them(first, second)
    assert metas[0] == before
    assert load_meta_properties(second) == metas[1]


def test_a_half_formatted_directory_is_formatted_again() -> None:
    disk = SimDisk(1)
    open_them(disk)
    disk.remove_now(META_PROPERTIES)
    (meta,) = open_them(disk)
    world = MetadataWorld(disk)
    world.run()
    assert world.meta == meta
    assert world.metadata.image.features


def test_a_lost_metadata_directory_is_not_silently_replaced() -> None:
    first, second = SimDisk(1), SimDisk(2)
    open_them(first, second)
    with pytest.raises(NotFormatted, match="would start an empty cluster"):
        open_them(SimDisk(3), second)


def used_node(*more: SimDisk) -> SimDisk:
    """The first directory of a node that has served."""
    disk = SimDisk(1)
    open_them(disk, *more)
    world = MetadataWorld(disk)
    world.run()
    world.metadata.stop()
    disk.put("recovery-point-offset-checkpoint", b"0\n0\n")
    return disk


def test_directories_in_another_order_do_not_make_a_new_cluster() -> None:
    second = SimDisk(2, root="second")
    first = used_node(second)
    first.root = "first"
    before = second.files()
    with pytest.raises(MetadataMissing, match="Name first first, or set metadata"):
        open_them(second, first)
    assert second.files() == before


def test_metadata_in_two_directories_is_refused() -> None:
    second = SimDisk(2, root="second")
    first = used_node(second)
    second.make_directory(METADATA_DIRECTORY)
    with pytest.raises(MetadataMissing, match="is in second"):
        open_them(first, second)


def test_a_used_directory_without_its_metadata_is_refused() -> None:
    disk = used_node()
    disk.remove_now(METADATA_DIRECTORY)
    with pytest.raises(MetadataMissing, match=r"there is memory/recovery-point-offset-checkpoint"):
        open_them(disk)


def test_partitions_are_a_trace_of_use() -> None:
    disk = SimDisk(1)
    open_them(disk)
    disk.remove_now(METADATA_DIRECTORY)
    disk.put("orders-0/00000000000000000000.log", b"")
    with pytest.raises(MetadataMissing, match=r"there is memory/orders-0\."):
        open_them(disk)


def test_a_metadata_directory_without_its_log_is_refused() -> None:
    disk = used_node()
    for path in disk.files():
        if path.startswith(METADATA_DIRECTORY) and path.endswith(".log"):
            disk.remove_now(path)
    disk.remove_now("recovery-point-offset-checkpoint")
    with pytest.raises(MetadataMissing, match=r"there is memory/__cluster_metadata-0/quorum-state"):
        open_them(disk)


def test_what_kafka_formatted_and_nobody_used_is_opened() -> None:
    """Without --standalone kafka-storage writes no metadata at all."""
    disk = SimDisk(1)
    (before,) = open_them(disk)
    disk.remove_now(METADATA_DIRECTORY)
    assert open_them(disk) == [before]


def test_a_sole_static_voter_gets_no_quorum_snapshot() -> None:
    disk = SimDisk(1)
    open_them(disk, static_voters=True)
    assert sorted(disk.files()) == [BOOTSTRAP, META_PROPERTIES]


def test_a_copy_of_a_directory_is_refused() -> None:
    first, copy = SimDisk(1, root="first"), SimDisk(2, root="copy")
    open_them(first)
    copy.put(META_PROPERTIES, first.files()[META_PROPERTIES])
    with pytest.raises(CopiedDirectory, match="copy has the same directory id as first"):
        open_them(first, copy)


# -- nodes of a cluster


def refusal(*disks: SimDisk, is_controller: bool = True, static_voters: bool = False) -> str:
    with pytest.raises(StorageError) as caught:
        open_them(
            *disks, sole_voter=False, is_controller=is_controller, static_voters=static_voters
        )
    return str(caught.value)


def test_one_of_several_voters_is_never_formatted_on_start() -> None:
    disk = SimDisk(1)
    text = refusal(disk)
    assert "kafka-storage format --cluster-id ID --config FILE" in text
    assert "--initial-controllers" in text
    assert not disk.files()


def test_a_static_voter_is_told_to_format_without_initial_controllers() -> None:
    text = refusal(SimDisk(1), static_voters=True)
    assert "kafka-storage format" in text
    assert "--initial-controllers" not in text


def test_a_new_broker_is_told_to_format_first() -> None:
    text = refusal(SimDisk(1), is_controller=False)
    assert "kafka-storage format" in text
    assert "--initial-controllers" not in text


def test_a_voter_of_several_that_lost_its_metadata_directory_is_refused() -> None:
    first, second = SimDisk(1), SimDisk(2)
    open_them(first, second)
    text = refusal(SimDisk(3), second)
    assert "restore the metadata from a copy" in text
    assert "could vote twice" in text


def test_a_voter_of_several_that_lost_its_metadata_log_is_refused() -> None:
    disk = used_node()
    disk.remove_now(METADATA_DIRECTORY)
    assert "could vote twice" in refusal(disk)


def broker(*disks: SimDisk) -> list[MetaProperties]:
    return open_them(*disks, sole_voter=False, is_controller=False, seed=2)


def test_a_broker_gets_a_new_metadata_directory_and_keeps_the_ids_of_the_others() -> None:
    first, second = SimDisk(1), SimDisk(2)
    before = open_them(first, second, cluster_id=CLUSTER_ID)
    new = SimDisk(3)
    after = broker(new, second)
    assert after[1] == before[1]
    assert after[0].cluster_id == CLUSTER_ID
    assert after[0].directory_id not in {each.directory_id for each in before}
    assert sorted(new.files()) == [BOOTSTRAP, META_PROPERTIES]


def test_a_broker_without_its_metadata_log_fetches_it_again() -> None:
    disk = used_node()
    (before,) = broker(disk)
    disk.remove_now(METADATA_DIRECTORY)
    assert broker(disk) == [before]


def test_a_broker_adopts_a_new_directory() -> None:
    first, second = SimDisk(1), SimDisk(2)
    (before,) = open_them(first)
    after = broker(first, second)
    assert after[0] == before
    assert load_meta_properties(second) == after[1]


def test_a_broker_with_its_directories_in_another_order_is_refused() -> None:
    second = SimDisk(2, root="second")
    first = used_node(second)
    assert "Name memory first" in refusal(second, first, is_controller=False)


def test_another_node_or_cluster_is_refused() -> None:
    disk = SimDisk(1)
    open_them(disk, cluster_id=CLUSTER_ID)
    with pytest.raises(WrongNode, match=r"Set node\.id=1"):
        open_them(disk, node_id=2)
    with pytest.raises(WrongCluster, match=CLUSTER_ID):
        open_them(disk, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
    other = SimDisk(2)
    open_them(other)
    with pytest.raises(WrongCluster):
        open_them(disk, other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version=2\nnode.id=1\n",
        "version=1\nnode.id=x\ncluster.id=a\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
        "version=1\nnode.id=1\ncluster.id=a\ndirectory.id=short\n",
        "\0\0\0",
    ],
)
def test_a_damaged_file_says_what_is_wrong(text: str) -> None:
    disk = SimDisk(1)
    disk.put(META_PROPERTIES, text.encode())
    with pytest.raises(MetaPropertiesCorrupt, match="Do not format"):
        open_them(disk)


def test_a_cluster_id_has_16_bytes() -> None:
    with pytest.raises(StorageError, match="not a cluster id"):
        open_them(SimDisk(1), cluster_id="hello")


def test_kafkas_own_file_is_read() -> None:
    disk = SimDisk(1)
    disk.put(
        META_PROPERTIES,
        b"#\n#Sun Nov 15 10:37:50 UTC 2026\nnode.id=1\ndirectory.id=lATNcnqhQRaR7_YxoYTuHQ\n"
        b"version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n",
    )
    meta = load_meta_properties(disk)
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (CLUSTER_ID, 1)
