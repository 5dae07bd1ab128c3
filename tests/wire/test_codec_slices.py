"""Reading and writing in slices: the same messages and bytes, with pauses; and what is too long."""

import struct
from random import Random

import pytest
from random_messages import all_messages, all_versions, random_message

from penstock.wire.codec import (
    SLICE_BYTES,
    read,
    read_in_slices,
    run_through,
    write,
    write_in_slices,
)
from penstock.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest
from penstock.wire.primitives import ARRAY_ELEMENTS_MAX, TAGS_MAX, Malformed, write_uvarint


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_slices_give_the_same_message_and_bytes(cls: type) -> None:
    for version in all_versions(cls):
        message = random_message(cls, version, Random(f"{cls.__name__} {version}"))
        data = write(message, version)
        out = bytearray()
        run_through(write_in_slices(message, version, out))
        assert bytes(out) == data
        assert run_through(read_in_slices(cls, version, data, 0)) == read(cls, version, data)


def test_long_lists_are_read_and_written_with_pauses() -> None:
    message = DescribeGroupsRequest(groups=["x" * 100] * 1_000)
    out = bytearray()
    pauses = sum(1 for _ in write_in_slices(message, 5, out))
    assert pauses >= len(out) // SLICE_BYTES - 1
    assert sum(1 for _ in read_in_slices(DescribeGroupsRequest, 5, out, 0)) >= pauses - 1


def test_records_that_are_only_viewed_pause_nothing() -> None:
    data = [PartitionProduceData(index=each, records=bytes(100_000)) for each in range(10)]
    message = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=data)])
    assert not list(read_in_slices(ProduceRequest, 9, write(message, 9), 0))


def test_an_array_of_more_than_a_million_elements_is_malformed() -> None:
    few = write(DescribeGroupsRequest(groups=[]), 0)
    data = struct.pack(">i", ARRAY_ELEMENTS_MAX + 1) + bytes(2 * ARRAY_ELEMENTS_MAX + 2) + few[4:]
    with pytest.raises(Malformed, match="too many elements"):
        read(DescribeGroupsRequest, 0, data)


def test_a_message_read_in_slices_has_at_most_a_million_elements_in_all_its_lists() -> None:
    half = ARRAY_ELEMENTS_MAX // 2
    entries = struct.pack(">i", half) + struct.pack(">ii", 0, -1) * half
    data = write(ProduceRequest(topic_data=[]), 3)[:-4] + struct.pack(">i", 2)
    data += (b"\0\1t" + entries) * 2
    with pytest.raises(Malformed, match="too many elements"):
        run_through(read_in_slices(ProduceRequest, 3, data, 0))


@pytest.mark.parametrize("count", [TAGS_MAX, TAGS_MAX + 1])
def test_more_than_ten_thousand_tagged_fields_are_malformed(count: int) -> None:
    data = bytearray(write(ApiVersionsRequest(), 3)[:-1])
    write_uvarint(data, count)
    data += b"\x01\x00" * count
    if count > TAGS_MAX:
        with pytest.raises(Malformed, match="tagged fields"):
            read(ApiVersionsRequest, 3, data)
    else:
        read(ApiVersionsRequest, 3, data)
