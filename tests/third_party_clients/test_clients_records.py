"""Records through real clients: codecs, headers, nulls, timestamps, sizes, seeks, times."""

import time

import pytest
from client_adapters import CLIENTS, Client, Got, How, MakeTopic, Refused, Sent
from cluster_sizes import ALSO_ON_THREE

from penstock import errors
from penstock.testing.cluster import Cluster

pytest_plugins = ["client_fixtures"]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW_MS = 1_700_000_000_000


def _values(records: list[Got]) -> list[bytes | None]:
    return [each.value for each in records]


@pytest.mark.each_value
@pytest.mark.parametrize("codec", CODECS)
def test_records_survive_every_codec(client: Client, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    sent = [Sent(b"value %d " % place * 20, b"key") for place in range(100)]
    assert client.produce(topic, sent, How(codec)) == list(range(100))
    got = client.consume(topic, 100)
    assert _values(got) == [each.value for each in sent]
    assert [each.offset for each in got] == list(range(100))


@pytest.mark.each_value
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", CLIENTS, ids=[each.name for each in CLIENTS])
def test_what_one_client_writes_the_others_read(
    client: Client,
    reader: type[Client],
    codec: str,
    make_topic: MakeTopic,
    disk_cluster: Cluster,
) -> None:
    topic = make_topic()
    headers = (("first", b"1"), ("second", b""))
    sent = [Sent(b"v%d" % place * 50, b"k", headers, NOW_MS + place) for place in range(10)]
    client.produce(topic, sent, How(codec))
    got = reader(disk_cluster).consume(topic, 10)  # type: ignore[call-arg]
    assert got == [
        Got(place, b"k", b"v%d" % place * 50, headers, NOW_MS + place, appended=False)
        for place in range(10)
    ]


@ALSO_ON_THREE
def test_null_keys_and_null_values_stay_null(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client.produce(topic, [Sent(b"v"), Sent(None, b"k"), Sent(b"", b"")])
    got = client.consume(topic, 3)
    assert [(each.key, each.value) for each in got] == [(None, b"v"), (b"k", None), (b"", b"")]


def test_headers_keep_their_order_and_repeat(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = (("b", b"1"), ("a", b"2"), ("b", b"3"), ("é", "ü".encode()))
    client.produce(topic, [Sent(b"v", headers=headers)])
    assert client.consume(topic, 1)[0].headers == headers


@pytest.mark.each_value
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_create_time_is_the_clients(client: Client, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    client.produce(topic, [Sent(b"v", timestamp=NOW_MS + place) for place in range(3)], How(codec))
    got = client.consume(topic, 3)
    expected = [(NOW_MS + place, False) for place in range(3)]
    assert [(each.timestamp, each.appended) for each in got] == expected


@pytest.mark.each_value
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_is_the_brokers(client: Client, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    client.produce(topic, [Sent(b"v", timestamp=NOW_MS) for _ in range(3)], How(codec))
    got = client.consume(topic, 3)
    assert all(each.appended for each in got)
    assert all(before <= each.timestamp <= time.time() * 1000 for each in got)


# -- sizes


@pytest.mark.parametrize("size", [60_000, 70_000, 1_000_000])
def test_a_message_up_to_the_limit_goes_through(
    client: Client, make_topic: MakeTopic, size: int
) -> None:
    topic = make_topic()
    value = bytes(range(256)) * (size // 256)
    client.produce(topic, [Sent(value), Sent(value[::-1])])
    assert _values(client.consume(topic, 2)) == [value, value[::-1]]


def test_a_message_over_the_limit_is_too_large_for_the_client(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=10_000)
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Sent(b"x" * 11_000)])
    assert refused.value.code == errors.MessageTooLarge.code
    assert client.watermarks(topic) == (0, 0)


def test_a_topic_may_allow_more_than_the_default(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=10 << 20)
    value = bytes(range(256)) * (20 << 10)
    client.produce(topic, [Sent(value)])
    assert _values(client.consume(topic, 1)) == [value]


def test_what_does_not_fit_may_fit_compressed(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=10_000)
    client.produce(topic, [Sent(b"x" * 100_000)], How("zstd"))
    assert _values(client.consume(topic, 1)) == [b"x" * 100_000]


@ALSO_ON_THREE
def test_many_records_over_many_batches_arrive_in_order(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(segment_bytes=1 << 20)
    sent = [Sent(b"%06d" % place + b"." * 1_000) for place in range(3_000)]
    assert client.produce(topic, sent) == list(range(3_000))
    assert _values(client.consume(topic, 3_000)) == [each.value for each in sent]


# -- places


@ALSO_ON_THREE
def test_a_consumer_can_seek_back_and_forth(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client.produce(topic, [Sent(b"%d" % place) for place in range(20)], How("gzip"))
    wanted = [10, 3, 19, 0, 10]
    got = client.revisit(topic, wanted)
    assert [(each.offset, each.value) for each in got] == [(o, b"%d" % o) for o in wanted]


def test_consuming_can_begin_inside_a_compressed_batch(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    client.produce(topic, [Sent(b"%d" % place) for place in range(20)], How("zstd"))
    assert _values(client.consume(topic, 3, offset=17)) == [b"17", b"18", b"19"]


def test_an_offset_beyond_the_end_is_out_of_range(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client.produce(topic, [Sent(b"v")])
    with pytest.raises(Refused):
        client.consume(topic, 1, offset=100)


@ALSO_ON_THREE
def test_beginning_and_end_are_told(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    client.produce(topic, [Sent(b"v") for _ in range(7)], How(partition=1))
    assert client.watermarks(topic, 0) == (0, 0)
    assert client.watermarks(topic, 1) == (0, 7)


@pytest.mark.each_value
@pytest.mark.parametrize("codec", CODECS)
def test_a_time_finds_its_exact_offset_inside_a_batch(
    client: Client, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic()
    stamps = [NOW_MS + 1_000 * place for place in range(10)]
    client.produce(topic, [Sent(b"v", timestamp=each) for each in stamps], How(codec))
    assert client.offset_at(topic, NOW_MS) == 0
    assert client.offset_at(topic, NOW_MS + 4_000) == 4
    assert client.offset_at(topic, NOW_MS + 4_001) == 5


def test_a_time_after_the_last_record_finds_nothing(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client.produce(topic, [Sent(b"v", timestamp=NOW_MS)])
    found = client.offset_at(topic, NOW_MS + 1)
    # librdkafka tells the end of the partition instead of nothing.
    assert found in (None, 1)


@ALSO_ON_THREE
def test_partitions_are_apart(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    for index in range(3):
        client.produce(topic, [Sent(b"%d" % index)], How(partition=index))
    for index in range(3):
        assert _values(client.consume(topic, 1, partition=index)) == [b"%d" % index]


# -- topics that are not there


@ALSO_ON_THREE
def test_a_topic_is_made_by_the_first_producer(client: Client, make_topic: MakeTopic) -> None:
    topic = f"{make_topic()}-made"
    client.produce(topic, [Sent(b"v")])
    assert _values(client.consume(topic, 1)) == [b"v"]
