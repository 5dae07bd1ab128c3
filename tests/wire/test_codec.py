"""The codec's promises that random messages do not show."""

from typing import cast

import pytest

from penstock.wire.codec import min_size, read, read_from, write, write_into
from penstock.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.wire.messages.k01_fetch import FetchRequest, ReplicaState
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
)
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest
from penstock.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.primitives import (
    STRING_BYTES_MAX,
    Malformed,
    UnencodableValue,
    UnknownMessageVersion,
    UnknownRecord,
    write_uvarint,
)
from penstock.wire.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    read_consumer_protocol,
)
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    read_coordinator_key,
    read_coordinator_value,
    write_coordinator_key,
    write_coordinator_value,
)
from penstock.wire.records.group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.wire.records.metadata import (
    PartitionRecord,
    read_metadata_record,
    write_metadata_record,
)
from penstock.wire.records.transaction import TransactionLogKey, TransactionLogValue
from penstock.wire.schema import Nested, message, struct


def produce_request(records: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def test_records_are_a_view_of_the_frame_they_came_in() -> None:
    frame = bytearray(write(produce_request(b"batch"), 9))
    found = read(ProduceRequest, 9, memoryview(frame)).topic_data[0].partition_data[0].records
    assert isinstance(found, memoryview)
    frame[frame.index(b"batch")] = ord("B")
    assert bytes(found) == b"Batch"


def test_bytes_are_copied_out_of_the_frame() -> None:
    frame = bytearray(write(SaslAuthenticateRequest(auth_bytes=b"secret"), 2))
    request = read(SaslAuthenticateRequest, 2, memoryview(frame))
    frame[:] = bytes(len(frame))
    assert request.auth_bytes == b"secret"


def test_records_may_be_any_buffer() -> None:
    expected = write(produce_request(b"batch"), 9)
    request = produce_request(b"")
    for records in (bytearray(b"batch"), memoryview(b"batch")):
        request.topic_data[0].partition_data[0].records = records
        assert write(request, 9) == expected


def test_a_field_that_a_version_lacks_is_not_written() -> None:
    assert write(HeartbeatRequest(group_instance_id="x"), 2) == write(HeartbeatRequest(), 2)


def test_a_field_that_a_version_lacks_reads_as_its_default() -> None:
    request = read(FetchRequest, 4, write(FetchRequest(session_epoch=7), 4))
    assert request.session_epoch == -1
    assert request.replica_state == ReplicaState()


def test_defaults_are_not_shared_between_messages() -> None:
    first, second = MetadataResponse(), MetadataResponse()
    assert first.topics is not second.topics
    data = write(first, 0)
    assert read(MetadataResponse, 0, data).topics is not read(MetadataResponse, 0, data).topics


def test_an_unknown_tagged_field_is_skipped() -> None:
    plain = write(ApiVersionsRequest(client_software_name="a"), 3)
    assert plain[-1] == 0
    tagged = plain[:-1] + b"\x02\x05\x03abc\xff\xff\xff\xff\x0f\x00" + b"rest"
    request, position = read_from(ApiVersionsRequest, 3, tagged, 0)
    assert request.client_software_name == "a"
    assert position == len(tagged) - 4


def test_a_tagged_field_must_be_as_long_as_it_says() -> None:
    data = bytearray(write(FetchRequest(cluster_id="ab"), 12))
    start = data.rindex(b"\x01\x00\x03\x03ab")
    data[start + 2] = 4
    with pytest.raises(Malformed, match="cluster_id"):
        read(FetchRequest, 12, bytes(data) + b"more")


def test_a_null_where_none_is_allowed_is_malformed() -> None:
    with pytest.raises(Malformed, match="topics is null"):
        read(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert read(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


def test_a_count_beyond_the_bytes_left_is_malformed() -> None:
    with pytest.raises(Malformed, match="too many"):
        read(MetadataRequest, 1, b"\x7f\xff\xff\xff" + bytes(100))


def test_an_element_takes_at_least_its_fixed_fields() -> None:
    assert min_size(Nested(MetadataResponsePartition), False, 12, True) == 2 + 4 + 4 + 4 + 3 + 1


def test_a_string_that_is_not_utf_8_is_malformed() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        read(HeartbeatRequest, 0, b"\x00\x01\xff" + bytes(6))


def _heartbeat(group_id: bytes) -> bytes:
    """HeartbeatRequest v4, which is flexible, as any client may send it."""
    data = bytearray()
    write_uvarint(data, len(group_id) + 1)
    return bytes(data + group_id + write(HeartbeatRequest(), 4)[1:])


def test_the_longest_string_of_a_message_is_as_in_kafka() -> None:
    longest = b"x" * STRING_BYTES_MAX
    request = read(HeartbeatRequest, 4, _heartbeat(longest))
    assert request.group_id == longest.decode()
    assert write(request, 4) == _heartbeat(longest)


def test_a_longer_string_is_malformed_however_its_length_is_written() -> None:
    with pytest.raises(Malformed, match="group_id is a string of 32768 bytes"):
        read(HeartbeatRequest, 4, _heartbeat(b"x" * (STRING_BYTES_MAX + 1)))


def test_a_longer_string_is_malformed_inside_an_array_and_among_the_tagged_fields() -> None:
    text = bytearray()
    write_uvarint(text, STRING_BYTES_MAX + 2)
    text += b"x" * (STRING_BYTES_MAX + 1)
    with pytest.raises(Malformed, match="groups is a string"):
        read(DescribeGroupsRequest, 5, b"\x02" + text + bytes(2))
    tagged = bytearray(write(FetchRequest(), 12)[:-1] + b"\x01\x00")
    write_uvarint(tagged, len(text))
    with pytest.raises(Malformed, match="cluster_id is a string"):
        read(FetchRequest, 12, tagged + text)


def test_a_longer_string_is_unwritable_in_every_version_of_a_message() -> None:
    request = HeartbeatRequest(group_id="\u00e9" * (STRING_BYTES_MAX // 2 + 1))
    for version in range(5):
        with pytest.raises(UnencodableValue, match=f"HeartbeatRequest v{version}"):
            write(request, version)


def test_a_longer_string_that_is_stored_already_can_be_read_and_kept() -> None:
    value = ConsumerGroupMemberMetadataValue(instance_id="i" * (STRING_BYTES_MAX + 1))
    data = write_coordinator_value(value, 0)
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    assert read_coordinator_value(GROUP_RECORDS, key, data) == (value, 0)


def test_a_varint_of_six_bytes_is_malformed() -> None:
    with pytest.raises(Malformed, match="varint"):
        read(ApiVersionsRequest, 3, b"\xff\xff\xff\xff\xff\x01")


def test_a_version_that_does_not_exist_is_refused() -> None:
    for version in (-1, 3, 19):
        with pytest.raises(UnknownMessageVersion):
            read(FetchRequest, version, bytes(100))
        with pytest.raises(UnknownMessageVersion):
            write(FetchRequest(), version)


@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest(generation_id=1 << 31),
        HeartbeatRequest(group_id="x" * 0x8000),
        HeartbeatRequest(group_id="\ud800"),
        HeartbeatRequest(group_id=None),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_the_wire_cannot_carry_is_unwritable(request_: HeartbeatRequest) -> None:
    with pytest.raises(UnencodableValue, match="HeartbeatRequest v0"):
        write(request_, 0)


def test_writing_appends_to_what_is_there() -> None:
    out = bytearray(b"head")
    write_into(HeartbeatRequest(group_id="g"), 0, out)
    assert out == b"head" + write(HeartbeatRequest(group_id="g"), 0)


def test_the_constructor_knows_its_fields() -> None:
    with pytest.raises(TypeError, match="nonsense"):
        HeartbeatRequest(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        HeartbeatRequest().nonsense = 1  # type: ignore[attr-defined]


def test_a_repr_shows_what_is_not_default_and_no_secret() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"secret")
    assert repr(request) == "SaslAuthenticateRequest(auth_bytes=<6 bytes>)"
    assert repr(HeartbeatRequest(group_id="g")) == "HeartbeatRequest(group_id='g')"


def test_messages_of_different_classes_are_never_equal() -> None:
    @struct
    class One:
        name: str = ""

    @message(versions="0")
    class Other:
        name: str = ""

    one, other = cast("object", One()), cast("object", Other())
    assert one == One()
    assert one != other


def test_a_metadata_record_stands_behind_frame_type_and_version() -> None:
    record = PartitionRecord(partition_id=1, last_known_elr=[3])
    data = write_metadata_record(record, 2)
    assert data[:3] == b"\x01\x03\x02"
    assert read_metadata_record(data) == (record, 2)


def test_an_unknown_metadata_record_says_its_type() -> None:
    with pytest.raises(UnknownRecord) as caught:
        read_metadata_record(b"\x01\xc8\x01\x00")
    assert caught.value.key == 200


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x01\x03", b"\x00\x03\x00", b"\x01\x14\x00\x00tail"]
)
def test_a_broken_metadata_frame_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_metadata_record(data)


def test_a_coordinator_key_stands_behind_its_type_and_a_value_behind_its_version() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=7)
    assert write_coordinator_key(key) == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x07"
    assert read_coordinator_key(GROUP_RECORDS, write_coordinator_key(key)) == key
    value = OffsetCommitValue(offset=5, metadata="m", topic_id=bytes(range(16)))
    data = write_coordinator_value(value, 4)
    assert data[:2] == b"\x00\x04"
    assert read_coordinator_value(GROUP_RECORDS, key, data) == (value, 4)


def test_the_same_type_means_another_record_in_another_topic() -> None:
    data = write_coordinator_key(TransactionLogKey(transactional_id="t"))
    assert read_coordinator_key(TRANSACTION_RECORDS, data) == TransactionLogKey(
        transactional_id="t"
    )
    value = write_coordinator_value(TransactionLogValue(producer_id=9, next_producer_epoch=3), 1)
    key = read_coordinator_key(TRANSACTION_RECORDS, data)
    found, version = read_coordinator_value(TRANSACTION_RECORDS, key, value)
    assert (found, version) == (TransactionLogValue(producer_id=9, next_producer_epoch=3), 1)


def test_an_unknown_coordinator_record_says_its_type() -> None:
    with pytest.raises(UnknownRecord) as caught:
        read_coordinator_key(GROUP_RECORDS, b"\x03\xe8rest")
    assert caught.value.key == 1000


def test_a_subscription_of_the_future_reads_as_the_newest_we_know() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a"], generation_id=4, rack_id="r")
    data = b"\x00\x09" + write(subscription, 3) + b"what is new"
    assert read_consumer_protocol(ConsumerProtocolSubscription, data) == subscription


def test_a_tagged_structure_that_is_null_is_a_zero_as_kafka_writes_it() -> None:
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    written = write(value, 0)
    assert written.hex() == "010101010101ffffffff0101000100"
    assert read(ConsumerGroupMemberMetadataValue, 0, written) == value
