"""A broker that fails, waits, is silent or hangs up because a test wants it to."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import CannotReach, Connection
from penstock.client.values import At
from penstock.errors import (
    GroupAuthorizationFailed,
    InvalidTopic,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    TopicAuthorizationFailed,
)
from penstock.model import TopicPartition
from penstock.testing import (
    Action,
    Cluster,
    Delay,
    Drop,
    Fail,
    InterceptedRequest,
    NotPossible,
    Pass,
    Silence,
    read_committed,
)
from penstock.wire.batch import Record, build_batch
from penstock.wire.frame import request_frame
from penstock.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from penstock.wire.messages.k02_list_offsets import ListOffsetsRequest
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

WAIT_SECONDS_MAX = 20.0
SHORT_MS = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    return cluster.create_topic(request.node.name.replace("[", "-").replace("]", "-"), partitions=2)


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    with Connection(*cluster.address, timeout_ms=int(WAIT_SECONDS_MAX * 1000)) as opened:
        yield opened


def produce_request(topic: str, *values: bytes, acks: int = 1, index: int = 0) -> ProduceRequest:
    records = build_batch([Record(n, 0, None, value) for n, value in enumerate(values)])
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def produce(connection: Connection, topic: str, *values: bytes, acks: int = 1) -> int:
    """The error code."""
    request = produce_request(topic, *values, acks=acks)
    answer = connection.request(request, ProduceResponse, 9)
    return answer.responses[0].partition_responses[0].error_code


def values_in(cluster: Cluster, topic: str) -> list[bytes]:
    return [record.value or b"" for record in read_committed(cluster, topic)]


# -- actions


def test_a_failed_produce_stores_nothing_and_the_next_one_passes(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    for _ in range(3):
        assert produce(connection, topic, b"before") == 0  # its beginning is remembered by now
    with cluster.intercept("Produce", Fail(NotLeaderOrFollower), times=1) as interception:
        assert produce(connection, topic, b"failed") == NotLeaderOrFollower.code
        assert not interception.active
        assert produce(connection, topic, b"after") == 0
    assert interception.count == 1
    assert values_in(cluster, topic) == [b"before"] * 3 + [b"after"]


def test_an_error_has_its_text_where_there_is_room_for_one(
    cluster: Cluster, connection: Connection, topic: str
) -> None:
    with cluster.intercept(0, Fail(PolicyViolation("not on a Sunday"))):
        answer = connection.request(produce_request(topic, b"a"), ProduceResponse, 9)
    (entry,) = answer.responses[0].partition_responses
    assert (entry.index, entry.error_code) == (0, PolicyViolation.code)
    assert entry.error_message == "not on a Sunday"
    assert entry.base_offset == -1


def test_a_failed_produce_without_acks_ends_its_connection(cluster: Cluster, topic: str) -> None:
    frame = request_frame(0, 9, 1, "silent", produce_request(topic, b"a", acks=0))
    with (
        cluster.intercept("Produce", Fail(InvalidTopic)),
        socket.create_connection(cluster.address, WAIT_SECONDS_MAX) as peer,
    ):
        peer.sendall(frame)
        assert peer.recv(1) == b""
    assert values_in(cluster, topic) == []


def test_a_delayed_request_is_handled_when_the_nodes_clock_says_so(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    with cluster.intercept("produce", Delay(3_600), times=1) as interception:
        first = connection.begin(produce_request(topic, b"a"), 9)
        second = connection.begin(produce_request(topic, b"b"), 9)
        interception.wait()
        assert values_in(cluster, topic) == []
        cluster.advance(hours=1)
        for pending in (first, second):
            answer = connection.finish(pending, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == 0
    assert values_in(cluster, topic) == [b"a", b"b"], "what came behind it waited, too"


def test_a_delay_may_end_in_something_else(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    with cluster.intercept("Produce", Delay(0.01, Fail(InvalidTopic)), times=1):
        assert produce(connection, topic, b"a") == InvalidTopic.code
        assert produce(connection, topic, b"b") == 0


def test_a_silent_broker_answers_nothing_more_on_that_connection(
    cluster: Cluster, topic: str
) -> None:
    with Connection(*cluster.address, timeout_ms=SHORT_MS) as connection:
        with cluster.intercept("Produce", Silence(), times=1) as interception:
            connection.begin(produce_request(topic, b"a"), 9)
            interception.wait()
        with pytest.raises(CannotReach):
            connection.request(ApiVersionsRequest(), ApiVersionsResponse)
    with Connection(*cluster.address) as other:
        assert produce(other, topic, b"b") == 0
    assert values_in(cluster, topic) == [b"b"]


def test_of_a_request_that_was_handled_in_silence_only_the_answer_is_lost(
    cluster: Cluster, topic: str
) -> None:
    with (
        cluster.intercept("Produce", Silence(handled=True), times=1),
        Connection(*cluster.address, timeout_ms=SHORT_MS) as connection,
        pytest.raises(CannotReach),
    ):
        produce(connection, topic, b"a")
    assert values_in(cluster, topic) == [b"a"]


@pytest.mark.parametrize("handled", [False, True])
def test_a_dropped_connection_is_closed_at_once(
    cluster: Cluster, topic: str, connection: Connection, handled: bool
) -> None:
    dropping = cluster.intercept("Produce", Drop(handled=handled), times=1)
    with dropping, pytest.raises(CannotReach):
        produce(connection, topic, b"a")
    assert values_in(cluster, topic) == ([b"a"] if handled else [])


def test_large_frames_are_intercepted_as_well(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    large = b"." * 900_000
    with cluster.intercept("Produce", Fail(NotLeaderOrFollower), times=1):
        assert produce(connection, topic, large) == NotLeaderOrFollower.code
    with cluster.intercept("Produce", Delay(0.01), times=1):
        assert produce(connection, topic, large) == 0
    with cluster.intercept("Fetch", Pass()):
        assert produce(connection, topic, large) == 0
    assert values_in(cluster, topic) == [large, large]


def test_answers_keep_their_order_around_a_failed_request(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    codes = iter([0, NotLeaderOrFollower.code, 0, InvalidTopic.code])

    def some(_request: InterceptedRequest[ProduceRequest]) -> Action:
        code = next(codes)
        return Fail(code) if code else Pass()

    with cluster.intercept(ProduceRequest, some):
        pending = [connection.begin(produce_request(topic, b"%d" % n), 9) for n in range(4)]
        answers = [connection.finish(each, ProduceResponse) for each in pending]
    found = [each.responses[0].partition_responses[0].error_code for each in answers]
    assert found == [0, NotLeaderOrFollower.code, 0, InvalidTopic.code]


# -- Fetch and Metadata


def fetch(topic: str, *indexes: int, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    partitions = [FetchPartition(partition=each, partition_max_bytes=1 << 20) for each in indexes]
    return FetchRequest(
        max_wait_ms=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, partitions=partitions)] if indexes else [],
    )


def told(answer: FetchResponse) -> dict[int, tuple[int, int]]:
    """Error code and bytes by partition."""
    return {
        part.partition_index: (part.error_code, len(part.records or b""))
        for topic in answer.responses
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", [4, 6, 7, 12])
def test_a_failed_fetch_has_the_error_for_each_partition(
    cluster: Cluster, topic: str, connection: Connection, version: int
) -> None:
    produce(connection, topic, b"a")
    with cluster.intercept("Fetch", Fail(OffsetOutOfRange), times=1):
        answer = connection.request(fetch(topic, 0, 1), FetchResponse, version)
        assert answer.error_code == 0
        assert told(answer) == {0: (OffsetOutOfRange.code, 0), 1: (OffsetOutOfRange.code, 0)}
        again = told(connection.request(fetch(topic, 0, 1), FetchResponse, version))
    assert again[0][0] == 0
    assert again[0][1] > 0


def test_a_failed_incremental_fetch_is_about_all_partitions_of_its_session(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    produce(connection, topic, b"a")
    first = connection.request(fetch(topic, 0, 1, session=(0, 0)), FetchResponse, 12)
    number = first.session_id
    assert number
    assert told(first)[0][1] > 0
    with cluster.intercept("Fetch", Fail(NotLeaderOrFollower), times=1):
        failed = connection.request(fetch(topic, session=(number, 1)), FetchResponse, 12)
    assert failed.session_id == number
    assert told(failed) == {0: (NotLeaderOrFollower.code, 0), 1: (NotLeaderOrFollower.code, 0)}
    after = connection.request(fetch(topic, session=(number, 2)), FetchResponse, 12)
    assert after.error_code == 0, "the session goes on"
    assert told(after)[0][1] > 0, "and what was not told is told again"


def test_an_error_of_the_session_is_the_answer_as_a_whole(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    with cluster.intercept("Fetch", Fail(70)):
        answer = connection.request(fetch(topic, 0), FetchResponse, 12)
    assert (answer.error_code, answer.responses) == (70, [])


def test_failed_metadata_names_the_brokers_nevertheless(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with cluster.intercept("Metadata", Fail(LeaderNotAvailable)):
        answer = connection.request(wanted, MetadataResponse, 9)
        everything = connection.request(MetadataRequest(topics=None), MetadataResponse, 9)
        nothing = connection.request(MetadataRequest(topics=[]), MetadataResponse, 9)
    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (1, *cluster.address)
    ]
    assert answer.controller_id == 1
    assert [(each.name, each.error_code) for each in answer.topics] == [
        (topic, LeaderNotAvailable.code)
    ]
    assert topic in [each.name for each in everything.topics]
    assert {each.error_code for each in everything.topics} == {LeaderNotAvailable.code}
    assert nothing.topics == []
    assert nothing.brokers == answer.brokers


# -- who decides


def test_a_function_sees_the_request_and_decides(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    seen: list[InterceptedRequest[ProduceRequest]] = []

    def only_long(request: InterceptedRequest[ProduceRequest]) -> Action | None:
        seen.append(request)
        (wanted,) = request.message.topic_data
        (data,) = wanted.partition_data
        return Fail(InvalidTopic) if len(data.records or b"") > 1_000 else None

    with cluster.intercept(ProduceRequest, only_long) as interception:
        assert produce(connection, topic, b"short") == 0
        assert produce(connection, topic, b"long" * 1_000) == InvalidTopic.code
    assert interception.count == 1, "what passes does not count"
    (first, _second) = seen
    assert (first.api, first.api_key, first.version) == ("Produce", 0, 9)
    assert (first.client_id, first.node) == ("penstock", 1)
    assert first.client_address[0] == "127.0.0.1"
    assert first.message.topic_data[0].name == topic
    assert repr(first).startswith("<Produce v9 from 'penstock': ProduceRequest(")


@pytest.mark.parametrize(
    "api", ["ListOffsets", "list_offsets", "LISTOFFSETS", 2, ListOffsetsRequest]
)
def test_an_api_is_named_by_name_number_or_class(
    cluster: Cluster, topic: str, api: str | int | type[ListOffsetsRequest]
) -> None:
    place = TopicPartition(topic, 0)
    failing = cluster.intercept(api, Fail(TopicAuthorizationFailed))
    with failing, Admin(bootstrap=cluster.bootstrap) as admin:
        found = admin.offsets({place: At.END})[place]
    assert isinstance(found, TopicAuthorizationFailed)


@pytest.mark.parametrize(
    ("api", "problem"),
    [
        ("ListOffset", "did you mean ListOffsets?"),
        (9_999, "no API with the number 9999"),
        (ProduceResponse, "not the class of a request"),
        (Record, "not the class of a request"),
    ],
)
def test_what_is_no_api_is_refused(
    cluster: Cluster, api: str | int | type[object], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        cluster.intercept(api, Pass())


def test_an_api_that_is_not_served_is_refused(cluster: Cluster) -> None:
    with pytest.raises(NotPossible, match="ShareFetch is not served"):
        cluster.intercept("ShareFetch", Pass())


def test_what_is_no_action_is_refused(cluster: Cluster) -> None:
    with pytest.raises(TypeError, match="not with 'slowly'"):
        cluster.intercept("Produce", "slowly")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="no error with the code 4711"):
        cluster.intercept("Produce", Fail(4711))
    with pytest.raises(ValueError, match="no error with the code 4711"):
        cluster.intercept("Produce", Delay(1, Fail(4711)))
    with pytest.raises(ValueError, match="a delay cannot be negative"):
        Delay(-1)
    with pytest.raises(ValueError, match="times=0"):
        cluster.intercept("Produce", Pass(), times=0)


def test_the_newest_interception_is_asked_first(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    with (
        cluster.intercept("Produce", Fail(InvalidTopic)),
        cluster.intercept("Produce", Fail(NotLeaderOrFollower), times=1),
    ):
        assert produce(connection, topic, b"a") == NotLeaderOrFollower.code
        assert produce(connection, topic, b"a") == InvalidTopic.code
    assert produce(connection, topic, b"a") == 0


def test_what_a_function_raises_comes_out_of_the_with(
    cluster: Cluster, topic: str, connection: Connection
) -> None:
    def wrong(request: InterceptedRequest[ProduceRequest]) -> Action:
        assert request.version == 4711
        return Pass()

    def use() -> None:
        with cluster.intercept(ProduceRequest, wrong), pytest.raises(CannotReach):
            produce(connection, topic, b"a")

    with pytest.raises(AssertionError, match="4711"):
        use()


def test_what_a_function_raises_comes_out_of_a_wait_and_of_the_end_of_the_cluster() -> None:
    def wrong(_request: InterceptedRequest[ApiVersionsRequest]) -> Action:
        raise RuntimeError("the test's own")

    cluster = Cluster().start()
    for end in ("wait", "close"):
        interception = cluster.intercept(ApiVersionsRequest, wrong)
        with pytest.raises(CannotReach):
            Connection(*cluster.address)
        with pytest.raises(RuntimeError, match="the test's own"):
            interception.wait() if end == "wait" else cluster.close()


def test_a_wait_for_what_does_not_come_says_how_many_came(cluster: Cluster) -> None:
    told = "0 of 2 EndTxn requests were intercepted within"
    with (
        cluster.intercept("EndTxn", Silence()) as interception,
        pytest.raises(AssertionError, match=told),
    ):
        interception.wait(2, timeout_s=0.01)


def test_an_interception_outlives_a_restart() -> None:
    with Cluster() as cluster, cluster.intercept("ApiVersions", Drop()):
        cluster.restart()
        with pytest.raises(CannotReach):
            Connection(*cluster.address)


def test_a_cluster_with_requests_that_wait_stops_at_once() -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("a")
        with (
            Connection(*cluster.address) as first,
            Connection(*cluster.address) as second,
        ):
            with cluster.intercept("Produce", Delay(3_600), times=1) as delayed:
                first.begin(produce_request(topic, b"a"), 9)
                delayed.wait()
            with cluster.intercept("Produce", Silence(handled=True), times=1) as silenced:
                second.begin(produce_request(topic, b"a"), 9)
                silenced.wait()
            ended = threading.Thread(target=cluster.stop)
            ended.start()
            ended.join(2.5)  # a stop waits three seconds for those who are owed an answer
            assert not ended.is_alive()


@pytest.mark.parametrize("cut", [3, 20], ids=["header", "body"])
def test_a_malformed_request_is_the_brokers_own_affair(
    cluster: Cluster, topic: str, cut: int
) -> None:
    def look(request: InterceptedRequest[ProduceRequest]) -> Action:
        return Fail(InvalidTopic) if request.message.acks else Pass()

    whole = request_frame(0, 9, 1, "client", produce_request(topic, b"a"))
    frame = (8 + cut).to_bytes(4, "big") + whole[4 : 12 + cut]
    for answer in (Fail(InvalidTopic), look):
        with (
            cluster.intercept("Produce", answer),
            socket.create_connection(cluster.address, WAIT_SECONDS_MAX) as peer,
        ):
            peer.sendall(frame)
            assert peer.recv(1) == b""
    assert values_in(cluster, topic) == []


# -- real clients


def test_librdkafka_goes_on_after_an_error_that_passes(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    said: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        said.append(error)

    with cluster.intercept("Produce", Fail(NotLeaderOrFollower), times=2) as interception:
        producer.produce(topic, b"a", partition=0, on_delivery=on_delivery)
        assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert interception.count == 2
    assert said == [None]
    assert values_in(cluster, topic) == [b"a"]


def test_an_idempotent_producer_repeats_what_was_stored_in_silence_without_a_duplicate(
    cluster: Cluster, topic: str
) -> None:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "enable.idempotence": True,
        "socket.timeout.ms": 1_000,
    }
    producer = Producer(settings)
    with cluster.intercept("Produce", Drop(handled=True), times=1) as interception:
        producer.produce(topic, b"a", partition=0)
        assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert interception.count == 1
    assert values_in(cluster, topic) == [b"a"]


def test_a_consumer_is_told_that_it_may_not(cluster: Cluster, topic: str) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "forbidden"}
    with (
        closing(Consumer(settings)) as consumer,
        cluster.intercept("FindCoordinator", Fail(GroupAuthorizationFailed)),
    ):
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_SECONDS_MAX)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
