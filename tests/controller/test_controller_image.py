"""Images and deltas: replay, snapshots, what is kept, what it costs."""

import time
from typing import Any

import pytest
from controller_bench import Bench

from penstock.controller.controller import Controller, NewerMetadata
from penstock.controller.delta import ImageBuilder, MetadataCorrupt
from penstock.controller.image import Image
from penstock.controller.image_records import image_records
from penstock.controller.records import UnreadRecord, decode_record, encode_record
from penstock.wire.records import metadata as m
from penstock.wire.structures import EntityData


def replayed(records: list[Any], base: Image | None = None) -> Image:
    builder = ImageBuilder(base or Image())
    for record in records:
        builder.apply(record)
    return builder.build(10, 1, 0)[0]


def same_content(first: Image, second: Image) -> bool:
    names = [name for name in Image.__slots__ if name not in ("offset", "epoch", "timestamp_ms")]
    return all(getattr(first, name) == getattr(second, name) for name in names)


KEPT = [
    m.ClientQuotaRecord(
        entity=[EntityData(entity_type="user", entity_name="alice")],
        key="producer_byte_rate",
        value=1.5,
    ),
    m.ClientQuotaRecord(
        entity=[EntityData(entity_type="user", entity_name=None)],
        key="producer_byte_rate",
        value=2.5,
    ),
    m.UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s", iterations=4096),
    m.AccessControlEntryRecord(id=b"a" * 16, resource_name="orders"),
    m.DelegationTokenRecord(owner="User:a", token_id="t"),
    UnreadRecord(bytes([1, 99, 0, 1, 2, 3])),
]


def test_a_snapshot_loses_nothing_not_even_what_is_not_known() -> None:
    bench = Bench((1, 2))
    bench.create("orders", 3, 2, retention_ms="7")
    image = replayed(KEPT, bench.image)
    written = [encode_record(record, 30) for record in image_records(image)]
    again = replayed([decode_record(value) for value in written])
    assert same_content(image, again)
    assert (len(again.client_quotas), len(again.scram), len(again.acls)) == (2, 1, 1)
    assert again.unread == (bytes([1, 99, 0, 1, 2, 3]),)


def test_what_is_kept_can_be_removed() -> None:
    image = replayed(KEPT)
    image = replayed(
        [
            m.ClientQuotaRecord(
                entity=[EntityData(entity_type="user", entity_name="alice")],
                key="producer_byte_rate",
                remove=True,
            ),
            m.RemoveUserScramCredentialRecord(name="alice", mechanism=1),
            m.RemoveAccessControlEntryRecord(id=b"a" * 16),
            m.RemoveDelegationTokenRecord(token_id="t"),
        ],
        image,
    )
    assert len(image.client_quotas) == 1
    assert not image.scram
    assert not image.acls
    assert not image.delegation_tokens


def test_replay_of_the_log_makes_the_image_that_was_kept_up_to_date() -> None:
    bench = Bench((1, 2, 3))
    for number in range(20):
        bench.create(f"t{number}", 2, 2)
    bench.beat(1, bench.image.brokers[1].epoch, want_fence=True)
    records = [decode_record(value) for batch in bench.log for value in batch]
    assert same_content(replayed(records), bench.image)


def test_an_old_image_stays_as_it_was() -> None:
    bench = Bench()
    bench.create("first", 2)
    before = bench.image
    bench.create("second", 2)
    bench.beat(1, bench.image.brokers[1].epoch, want_fence=True)
    assert list(before.topics) == ["first"]
    assert before.topics["first"].partitions[0].leader == 1
    assert before.brokers[1].active


def test_unchanged_parts_are_shared() -> None:
    bench = Bench()
    bench.create("first")
    before = bench.image
    bench.create("second")
    assert bench.image.topics["first"] is before.topics["first"]
    assert bench.image.brokers is before.brokers


def controller(steps: list[Any]) -> Controller:
    made = Bench(()).controller
    return Controller(made._settings, made._rules, made._bootstrap, steps.append)


def test_an_aborted_transaction_leaves_no_trace() -> None:
    machine = controller([])
    machine.replay(m.TopicRecord(name="kept", topic_id=b"k" * 16))
    machine.replayed(1, 1, 0)
    machine.replay(m.BeginTransactionRecord(name="n"))
    machine.replay(m.TopicRecord(name="gone", topic_id=b"g" * 16))
    machine.replayed(3, 1, 0)
    machine.replay(m.AbortTransactionRecord(reason="r"))
    machine.replayed(4, 1, 0)
    machine.loaded(0)
    assert list(machine.image.topics) == ["kept"]


def test_a_transaction_shows_only_when_it_has_ended() -> None:
    steps: list[Any] = []
    machine = controller(steps)
    machine.replay(m.NoOpRecord())
    machine.replayed(1, 1, 0)
    machine.loaded(0)
    seen = len(steps)
    machine.replay(m.BeginTransactionRecord(name="n"))
    machine.replay(m.TopicRecord(name="a", topic_id=b"a" * 16))
    machine.replayed(3, 1, 0)
    assert len(steps) == seen
    assert not machine.image.topics
    machine.replay(m.EndTransactionRecord())
    machine.replayed(4, 1, 0)
    assert list(machine.image.topics) == ["a"]


def test_a_transaction_left_open_is_aborted_on_activation() -> None:
    machine = controller([])
    machine.replay(m.FeatureLevelRecord(name="metadata.version", feature_level=30))
    machine.replay(m.BeginTransactionRecord(name="n"))
    machine.replay(m.TopicRecord(name="a", topic_id=b"a" * 16))
    machine.replayed(3, 1, 0)
    outcome = machine.loaded(0)
    (record,) = outcome.records
    assert isinstance(record, m.AbortTransactionRecord)


def test_a_crash_amid_bootstrap_starts_it_again() -> None:
    machine = controller([])
    machine.replay(m.BeginTransactionRecord(name="Bootstrap records"))
    machine.replay(m.FeatureLevelRecord(name="metadata.version", feature_level=30))
    machine.replayed(2, 1, 0)
    records = machine.loaded(0).records
    kinds = [type(record).__name__ for record in records]
    assert kinds[:2] == ["AbortTransactionRecord", "BeginTransactionRecord"]
    assert kinds[-1] == "EndTransactionRecord"


def test_metadata_of_a_newer_server_is_refused() -> None:
    machine = controller([])
    machine.replay(m.FeatureLevelRecord(name="metadata.version", feature_level=31))
    machine.replayed(1, 1, 0)
    with pytest.raises(NewerMetadata, match=r"metadata\.version 31"):
        machine.loaded(0)


@pytest.mark.parametrize(
    "record",
    [
        m.PartitionRecord(topic_id=b"x" * 16, partition_id=0),
        m.RemoveTopicRecord(topic_id=b"x" * 16),
        m.BrokerRegistrationChangeRecord(broker_id=5, fenced=1),
    ],
)
def test_a_log_that_contradicts_itself_is_not_believed(record: Any) -> None:
    with pytest.raises(MetadataCorrupt):
        replayed([record])


@pytest.mark.parametrize(("version", "expected"), [(7, 0), (17, 1), (23, 2), (30, 2)])
def test_records_are_written_for_the_clusters_metadata_version(version: int, expected: int) -> None:
    record = m.PartitionRecord(partition_id=0, topic_id=b"x" * 16, replicas=[1], isr=[1], leader=1)
    assert encode_record(record, version)[2] == expected


def big_image(topics: int) -> Image:
    records: list[Any] = []
    for number in range(topics):
        topic_id = number.to_bytes(16, "big")
        records.append(m.TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        records.append(
            m.PartitionRecord(
                partition_id=0,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                directories=[b"d" * 16],
            )
        )
    return replayed(records)


def test_one_topic_among_ten_thousand_is_changed_in_well_under_a_millisecond() -> None:
    image = big_image(10_000)
    change = m.PartitionChangeRecord(
        partition_id=0, topic_id=(77).to_bytes(16, "big"), leader=-1, isr=[]
    )
    best = min(_timed(image, change) for _ in range(20))
    assert best < 1.0, f"{best:.2f} ms"


def _timed(image: Image, change: Any) -> float:
    start = time.perf_counter()
    builder = ImageBuilder(image)
    builder.apply(change)
    builder.build(20_001, 1, 0)
    return (time.perf_counter() - start) * 1000


def test_the_name_table_is_copied_only_when_topics_come_or_go() -> None:
    image = big_image(10)
    change = m.PartitionChangeRecord(
        partition_id=0, topic_id=(7).to_bytes(16, "big"), leader=-1, isr=[]
    )
    after = replayed([change], image)
    assert after.topic_names is image.topic_names
    assert after.topics["topic-7"].partitions[0].leader_epoch == 0
