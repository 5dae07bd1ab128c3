"""Whatever the bytes are, a reader gives a value or says Malformed, and stays small."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from typing import Any, Protocol

import pytest
from quiet_process import attempt, peak_of_reading
from random_messages import all_messages, all_records, all_versions, random_message

from depth import sample
from penstock.wire.codec import read, write
from penstock.wire.frame import parse_request_header
from penstock.wire.messages.k01_fetch import FetchRequest
from penstock.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k11_join_group import JoinGroupRequest
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest
from penstock.wire.messages.k19_create_topics import CreateTopicsRequest
from penstock.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest
from penstock.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from penstock.wire.primitives import Blob, Fixed, Malformed
from penstock.wire.records.metadata import read_metadata_record
from penstock.wire.schema import Array, Kind, Nested, Text, schema_of

CUTS = 40
DAMAGES = 40
MANY = 500
PEAK_SECONDS_MAX = 60.0
# What a length, a count or a tag says when it lies.
LIES = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80",
    b"\x00\x10\x00\x00",
    b"\x7f\xff",
)


class Quiet(Protocol):
    """peak_of_reading, in a process of its own."""

    def __call__(self, cls: type, version: int, data: bytes) -> int: ...


@pytest.fixture(scope="module")
def peak() -> Iterator[Quiet]:
    # An executor reports a process that has died. A Pool of multiprocessing waits for ever.
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        yield lambda *given: executor.submit(peak_of_reading, *given).result(PEAK_SECONDS_MAX)


def damaged(data: bytes, random: Random) -> Iterator[bytes]:
    for _ in range(DAMAGES if data else 0):
        position = random.randrange(len(data))
        lie = random.choice(LIES)
        yield data[:position] + lie + data[position + len(lie) :]
        yield (
            data[:position]
            + bytes([data[position] ^ 1 << random.randrange(8)])
            + data[position + 1 :]
        )


@pytest.mark.parametrize("cls", all_messages() + all_records(), ids=lambda cls: cls.__name__)
def test_a_message_cut_short_is_malformed(cls: type) -> None:
    for version in all_versions(cls):
        random = Random(f"cut {cls.__name__} {version}")
        data = write(random_message(cls, version, random), version)
        sizes = range(len(data))
        for size in sizes if len(sizes) <= CUTS else random.sample(sizes, CUTS):
            with pytest.raises(Malformed):
                read(cls, version, data[:size])


@pytest.mark.parametrize("cls", all_messages() + all_records(), ids=lambda cls: cls.__name__)
def test_a_damaged_message_gives_a_value_or_is_malformed(cls: type) -> None:
    for version in all_versions(cls):
        random = Random(f"damage {cls.__name__} {version}")
        data = write(random_message(cls, version, random), version)
        for bad in damaged(data, random):
            attempt(cls, version, bad)
        for filling in (0, 1, 2, 0x7F, 0xFF):
            attempt(cls, version, bytes([filling]) * 200)


@pytest.mark.parametrize("seed", range(20))
def test_noise_gives_a_header_or_record_or_is_malformed(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        noise = random.randbytes(random.randrange(40))
        for parse in (parse_request_header, read_metadata_record):
            try:
                parse(b"\x00\x01\x00\x0c" + noise if parse is parse_request_header else noise)
            except Malformed:
                pass


GREEDY = [
    (FetchRequest, 4),
    (FetchRequest, 18),
    (MetadataRequest, 1),
    (MetadataRequest, 12),
    (MetadataResponse, 0),
    (MetadataResponse, 12),
    (OffsetCommitRequest, 2),
    (OffsetCommitRequest, 10),
    (JoinGroupRequest, 9),
    (ApiVersionsRequest, 3),
    (CreateTopicsRequest, 7),
    (AddPartitionsToTxnRequest, 5),
    (StreamsGroupHeartbeatRequest, 0),
]


@pytest.mark.parametrize(("cls", "version"), GREEDY)
def test_a_lie_about_a_length_costs_no_memory(cls: type, version: int, peak: Quiet) -> None:
    random = Random(f"greedy {cls.__name__} {version}")
    message = write(random_message(cls, version, random), version)
    for data in damaged(message + bytes(10_000), random):
        assert peak(cls, version, data) <= 64 * len(data) + (1 << 20)


def smallest(cls: type, version: int) -> Any:
    """The message that takes the fewest bytes."""
    values = {
        item.name: None if version in item.nullable else smallest_value(item.kind, version)
        for item in schema_of(cls).fields
        if version in item.versions and item.tag is None
    }
    return cls(**values)


def smallest_value(kind: Kind, version: int) -> object:
    match kind:
        case Fixed():
            return kind.default
        case Text():
            return ""
        case Blob():
            return b""
        case Array():
            return []
        case Nested(cls):
            return smallest(cls, version)


def swollen(cls: type, version: int) -> Iterator[Any]:
    """Messages that are small but for one array, each array of the class in turn."""
    for item in schema_of(cls).fields:
        element = item.kind.element if isinstance(item.kind, Array) else item.kind
        if version not in item.versions:
            continue
        values: list[object] = []
        if isinstance(item.kind, Array):
            values.append([smallest_value(element, version)] * MANY)
        if isinstance(element, Nested):
            inner = swollen(element.cls, version)
            values += [[part] if isinstance(item.kind, Array) else part for part in inner]
        for value in values:
            message = smallest(cls, version)
            setattr(message, item.name, value)
            yield message


@pytest.mark.parametrize(
    "cls", sample(all_messages() + all_records(), every=4), ids=lambda cls: cls.__name__
)
def test_many_small_elements_cost_at_most_64_times_their_bytes(cls: type, peak: Quiet) -> None:
    version = all_versions(cls)[-1]
    for message in swollen(cls, version):
        data = write(message, version)
        assert peak(cls, version, data) <= 64 * len(data) + (1 << 13)
