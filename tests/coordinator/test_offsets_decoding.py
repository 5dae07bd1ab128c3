"""Offsets are read by hand beside the general codec: both ways must agree on every batch."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.batches import (
    decode,
    encode,
    encode_plainly,
    read_plainly,
)
from penstock.coordinator.offset_batches import KeyAndValue, read_quickly, write_quickly
from penstock.coordinator.records import CoordinatorRecord, PendingOffset, UnreadableRecord
from penstock.wire import batch as batches
from penstock.wire.compression import decompress
from penstock.wire.primitives import Malformed
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    write_coordinator_key,
    write_coordinator_value,
)
from penstock.wire.records.group import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
METADATA = st.one_of(st.just(""), st.just(""), NAMES, st.just("m" * 5_000))
Raw = tuple[bytes, bytes | None]


@st.composite
def offsets(draw: st.DrawFn) -> Raw:
    key = OffsetCommitKey(group=draw(NAMES), topic=draw(NAMES), partition=draw(INT32))
    if draw(st.integers(0, 5)) == 0:
        return write_coordinator_key(key), None
    version = draw(st.sampled_from((4, 4, 4, 3, 3, 2, 1, 0)))
    value = OffsetCommitValue(
        offset=draw(INT64),
        leader_epoch=draw(INT32),
        metadata=draw(METADATA),
        commit_timestamp=draw(INT64),
        expire_timestamp=draw(INT64),
        topic_id=draw(st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16))),
    )
    return write_coordinator_key(key), write_coordinator_value(value, version)


def others() -> st.SearchStrategy[Raw]:
    """Records of other types; one that nobody knows, and trailing bytes that nobody looks at."""
    legacy = LegacyOffsetCommitKey(group="g", topic="t", partition=3)
    offset = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=9)
    return st.sampled_from(
        [
            (write_coordinator_key(legacy), write_coordinator_value(LegacyOffsetCommitValue(), 0)),
            (
                write_coordinator_key(GroupMetadataKey(group="g")),
                write_coordinator_value(GroupMetadataValue(protocol_type="consumer"), 3),
            ),
            (write_coordinator_key(GroupMetadataKey(group="g")), None),
            (
                write_coordinator_key(ConsumerGroupMetadataKey(group_id="g")),
                write_coordinator_value(ConsumerGroupMetadataValue(epoch=4), 0),
            ),
            (b"\x7f\x00 what is this?", b"\x00\x00"),
            (b"", b""),
            (write_coordinator_key(offset)[:-3], write_coordinator_value(value, 4)),
            (write_coordinator_key(offset), write_coordinator_value(value, 4)[:-3]),
            (write_coordinator_key(offset), b"\x00\x63" + bytes(20)),
            (write_coordinator_key(offset), b""),
            (write_coordinator_key(GroupMetadataKey(group="g")), b"\x00\x03\x00"),
            (write_coordinator_key(offset) + b"more", write_coordinator_value(value, 4)),
            (write_coordinator_key(offset), write_coordinator_value(value, 3) + b"more"),
            (write_coordinator_key(offset), write_coordinator_value(value, 4) + bytes(18)),
        ]
    )


@st.composite
def written(draw: st.DrawFn) -> bytes:
    raw = draw(st.lists(st.one_of(offsets(), offsets(), others()), max_size=12))
    apart = draw(st.sampled_from((0, 0, 1, 70, 10_000)))
    gap = draw(st.sampled_from((1, 1, 100, 10_000)))
    headers = draw(st.sampled_from(((), (), (), (("h", b"v"),))))
    records = [
        batches.Record(number * gap, number * apart, key, value, headers)
        for number, (key, value) in enumerate(raw)
    ]
    return batches.build_batch(records, compression=draw(st.sampled_from((0, 0, 1, 4))))


def by_hand(batch: bytes) -> list[KeyAndValue] | None:
    header = batches.HEADER.unpack_from(batch)
    codec = header[batches.ATTRIBUTES] & batches.CODEC_MASK
    body = batch[batches.HEADER_BYTES :]
    return read_quickly(bytes(decompress(codec, body)), header[batches.RECORD_COUNT])


def as_records(
    pairs: list[KeyAndValue | UnreadableRecord],
) -> list[CoordinatorRecord | UnreadableRecord]:
    return [
        pair if isinstance(pair, UnreadableRecord) else CoordinatorRecord(*pair) for pair in pairs
    ]


def outcome(read: Any, *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except Malformed:
        return Malformed


@given(written())
def test_both_ways_read_the_same_records(batch: bytes) -> None:
    plainly = read_plainly(GROUP_RECORDS, batch)
    assert by_hand(batch) in (None, plainly)
    header = batches.HEADER.unpack_from(batch)
    assert decode(GROUP_RECORDS, batch, header) == as_records(plainly)


@given(written(), st.randoms(use_true_random=False))
def test_both_ways_refuse_the_same_broken_batches(batch: bytes, dice: random.Random) -> None:
    broken = bytearray(batch)
    for _ in range(dice.randrange(1, 4)):
        if len(broken) > batches.HEADER_BYTES:
            broken[dice.randrange(batches.HEADER_BYTES, len(broken))] = dice.randrange(256)
    header = batches.HEADER.unpack_from(broken)
    expected = outcome(read_plainly, GROUP_RECORDS, bytes(broken))
    if expected is not Malformed:
        expected = as_records(expected)
    assert outcome(decode, GROUP_RECORDS, bytes(broken), header) == expected


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 1_000_000])
def test_both_ways_judge_a_wrong_count_alike(count: int) -> None:
    batch = bytearray(encode([CoordinatorRecord(OffsetCommitKey(group="g"))] * 2, 5))
    batch[batches.HEADER_BYTES - 4 : batches.HEADER_BYTES] = count.to_bytes(4, signed=True)
    header = batches.HEADER.unpack_from(batch)
    with pytest.raises(Malformed):
        read_plainly(GROUP_RECORDS, bytes(batch))
    with pytest.raises(Malformed):
        decode(GROUP_RECORDS, bytes(batch), header)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("topic_id", [bytes(16), bytes(range(16))])
def test_what_is_usual_is_read_by_hand(version: int, topic_id: bytes) -> None:
    key = OffsetCommitKey(group="group", topic="topic", partition=7)
    value = OffsetCommitValue(offset=5, leader_epoch=2, commit_timestamp=99, topic_id=topic_id)
    raw = (write_coordinator_key(key), write_coordinator_value(value, version))
    if version == 3:
        value.topic_id = bytes(16)
    batch = batches.build_batch([batches.Record(0, 0, *raw), batches.Record(1, 3, raw[0], None)])
    assert by_hand(batch) == [(key, value), (key, None)]


def test_a_batch_of_a_transaction_holds_pending_records() -> None:
    key = OffsetCommitKey(group="group", topic="topic", partition=7)
    value = OffsetCommitValue(offset=5)
    batch = encode([PendingOffset(77, 3, key, value)], 5)
    header = batches.HEADER.unpack_from(batch)
    assert decode(GROUP_RECORDS, batch, header) == [PendingOffset(77, 3, key, value)]


def test_an_unreadable_record_costs_no_other_record_of_its_batch() -> None:
    key = write_coordinator_key(OffsetCommitKey(group="g", topic="t", partition=3))
    value = write_coordinator_value(OffsetCommitValue(offset=9), 4)
    raw = [(key, value), (key, b""), (b"", value), (key, value)]
    batch = batches.build_batch(
        [batches.Record(40 + number, 0, *each) for number, each in enumerate(raw)], base_offset=40
    )
    passed_over: list[int] = []
    header = batches.HEADER.unpack_from(batch)
    found = decode(GROUP_RECORDS, batch, header, lambda offset, _: passed_over.append(offset))
    assert [type(each) for each in found] == [
        CoordinatorRecord,
        UnreadableRecord,
        CoordinatorRecord,
    ]
    assert passed_over == [42]


@given(
    st.lists(
        st.builds(
            CoordinatorRecord,
            st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=INT32),
            st.builds(
                OffsetCommitValue,
                offset=INT64,
                leader_epoch=INT32,
                commit_timestamp=INT64,
                topic_id=st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
            ),
        ),
        max_size=70,
    )
)
def test_offsets_are_written_by_hand_as_the_general_codec_writes_them(
    records: list[CoordinatorRecord],
) -> None:
    assert write_quickly(records) == encode_plainly(records)


def test_offsets_of_several_topics_in_turn_are_written_by_hand_too() -> None:
    keys = [
        OffsetCommitKey(group=group, topic=topic, partition=partition)
        for partition in range(30)
        for group, topic in (("g", "short"), ("g", "a-longer-name"), ("another", "short"))
    ]
    ids = (bytes(16), b"i" * 16)
    records = [
        CoordinatorRecord(key, OffsetCommitValue(offset=number, topic_id=ids[number // 7 % 2]))
        for number, key in enumerate(keys)
    ]
    assert write_quickly(records) == encode_plainly(records)


def test_a_commit_of_very_many_offsets_is_written_by_hand_too() -> None:
    """The number of a record takes one byte below 64, two below 8,192, then three."""
    key, value = OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=5)
    records = [CoordinatorRecord(key, value)] * 8_200
    assert write_quickly(records) == encode_plainly(records)


@pytest.mark.parametrize(
    "value",
    [
        OffsetCommitValue(metadata="why"),
        OffsetCommitValue(expire_timestamp=5),
        None,
        LegacyOffsetCommitValue(),
    ],
)
def test_what_is_no_plain_offset_is_left_to_the_general_codec(value: object) -> None:
    assert write_quickly([CoordinatorRecord(OffsetCommitKey(group="g", topic="t"), value)]) is None


def test_a_commit_of_a_very_long_name_is_left_to_the_general_codec() -> None:
    long = CoordinatorRecord(OffsetCommitKey(group="g" * 1_000, topic="t"), OffsetCommitValue())
    assert write_quickly([long]) is None
