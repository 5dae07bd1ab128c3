"""The admin client against an embedded node: what it promises of any cluster, and what a node of
Penstock does not serve yet. admin_facts.py has the facts, for other servers too."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from admin_facts import AUTHORIZER_FACTS, FACTS, Fact, new_topic, only_broker
from admin_server import CLOSE, AdminServer

import penstock as aio
from penstock import errors, sync
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import QuorumListener
from penstock.client.failures.kinds import ClientClosed, TimedOut
from penstock.client.settings import SettingRefused
from penstock.client.transport.connection import CannotReach
from penstock.model import TopicPartition
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k43_elect_leaders as k43
from penstock.wire.messages import k75_describe_topic_partitions as k75


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A node of Penstock, also where the tests run against another cluster."""
    with Cluster() as cluster:
        yield cluster


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_of_a_node_it_holds_that(penstock_cluster: Cluster, fact: Fact) -> None:
    fact(penstock_cluster.bootstrap)


@pytest.mark.parametrize("fact", AUTHORIZER_FACTS, ids=lambda fact: fact.__name__)
def test_of_a_node_with_an_authorizer_it_holds_that(fact: Fact) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Cluster(settings) as guarded:
        fact(guarded.bootstrap)


@pytest.mark.parametrize(
    ("api", "call"),
    [
        ("DescribeDelegationToken", lambda admin: admin.tokens.describe()),
        ("CreateDelegationToken", lambda admin: admin.tokens.create()),
        ("RenewDelegationToken", lambda admin: admin.tokens.renew(b"x")),
        ("ExpireDelegationToken", lambda admin: admin.tokens.expire(b"x")),
        (
            "AddRaftVoter",
            lambda admin: admin.quorum.add_voter(2, bytes(16), [QuorumListener("C", "h", 1)]),
        ),
        ("RemoveRaftVoter", lambda admin: admin.quorum.remove_voter(2, bytes(16))),
    ],
)
def test_what_the_server_does_not_serve_is_said_with_its_name(
    own_cluster: Cluster, api: str, call: Callable[[Admin], object]
) -> None:
    unserved = pytest.raises(errors.UnsupportedVersion, match=f"does not serve {api}")
    with Admin(bootstrap=own_cluster.bootstrap) as admin, unserved:
        call(admin)


def test_the_running_broker_is_not_forgotten(own_cluster: Cluster) -> None:
    with Admin(bootstrap=own_cluster.bootstrap) as admin:
        broker = only_broker(admin)
        with pytest.raises(errors.InvalidRequest, match="Stop it first"):
            admin.unregister_broker(broker)


# -- how it is made


def test_kafkas_own_keys_make_one(penstock_cluster: Cluster) -> None:
    settings = {
        "bootstrap.servers": penstock_cluster.bootstrap,
        "client.id": "by-settings",
        "request.timeout.ms": 5_000,
        "default.api.timeout.ms": 7_000,
    }
    with Admin(settings) as admin:
        assert admin.describe_cluster().brokers
        assert admin.limit.timeout_ms == 7_000


def test_what_is_named_goes_before_the_settings(penstock_cluster: Cluster) -> None:
    settings = {"default.api.timeout.ms": 7_000}
    with Admin(settings, bootstrap=penstock_cluster.bootstrap, api_timeout_s=9) as admin:
        assert admin.describe_cluster().brokers
        assert admin.limit.timeout_ms == 9_000


def test_a_key_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingRefused, match=r"bootstrap\.server"):
        Admin({"bootstrap.server": "127.0.0.1:9092"})


@pytest.mark.parametrize("address", ["", "no-port:", ":9092"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"host:port|is missing"):
        Admin(bootstrap=address)


@pytest.mark.parametrize(
    "client", [aio.Admin, aio.Producer, aio.Consumer, sync.Admin, sync.Producer, sync.Consumer]
)
def test_every_client_takes_its_address_by_name_only(client: Any) -> None:
    with pytest.raises(SettingRefused, match=r"an address is said as bootstrap="):
        client("127.0.0.1:9092")


# -- limits


@contextmanager
def silent(key: int) -> Iterator[AdminServer]:
    """A server that takes requests of a key and does not answer them."""
    with AdminServer({key: lambda _: None}) as server:
        yield server


def test_a_call_ends_when_its_time_is_over() -> None:
    late = pytest.raises(TimedOut, match="200 ms")
    with silent(75) as server, Admin(bootstrap=server.bootstrap, api_timeout_s=0.2) as admin, late:
        admin.describe_topic_partitions(["orders"])


def test_calls_inside_of_within_share_its_time() -> None:
    with silent(75) as server, Admin(bootstrap=server.bootstrap) as admin, admin.within(0.15):
        admin.describe_cluster()
        with pytest.raises(TimedOut, match="150 ms"):
            admin.describe_topic_partitions(["orders"])


def test_a_request_ends_when_its_own_time_is_over() -> None:
    late = pytest.raises(CannotReach, match="no answer in time")
    with silent(75) as server, Admin(bootstrap=server.bootstrap, timeout_s=0.1) as admin, late:
        admin.describe_topic_partitions(["orders"])


def test_retries_end_with_the_call() -> None:
    answer = k43.ElectLeadersResponse(error_code=errors.NotController.code)
    partition = TopicPartition("orders", 0)
    with AdminServer({43: lambda _: answer}) as server:
        with (
            Admin(bootstrap=server.bootstrap, api_timeout_s=0.25) as admin,
            pytest.raises(TimedOut),
        ):
            admin.elect_leaders([partition])
        assert len(server.requests(43)) > 1


def test_after_a_call_without_an_answer_the_next_one_has_one() -> None:
    with silent(75) as server, Admin(bootstrap=server.bootstrap, api_timeout_s=0.2) as admin:
        with pytest.raises(TimedOut):
            admin.describe_topic_partitions(["orders"])
        server.answer(75, lambda _: k75.DescribeTopicPartitionsResponse())
        assert list(admin.describe_topic_partitions(["orders"])) == ["orders"]


def test_a_connection_that_the_server_has_closed_is_made_anew() -> None:
    def answer_once(_request: object) -> object:
        server.answer(75, lambda _: k75.DescribeTopicPartitionsResponse())
        return CLOSE

    with AdminServer({75: answer_once}) as server, Admin(bootstrap=server.bootstrap) as admin:
        with pytest.raises(CannotReach):
            admin.describe_topic_partitions(["orders"])
        assert list(admin.describe_topic_partitions(["orders"])) == ["orders"]


def test_a_restarted_node_is_connected_to_again() -> None:
    with Cluster() as cluster, Admin(bootstrap=cluster.bootstrap) as admin:
        topic = new_topic(admin)
        cluster.restart()
        assert topic in [each.name for each in admin.list_topics()]


def test_a_closed_admin_says_so(penstock_cluster: Cluster) -> None:
    admin = Admin(bootstrap=penstock_cluster.bootstrap)
    admin.close()
    with pytest.raises(ClientClosed):
        admin.list_topics()
    with pytest.raises(ClientClosed):
        admin.groups.list_all()


# -- pages


def test_a_cursor_that_does_not_move_ends_the_pages() -> None:
    stuck = k75.DescribeTopicPartitionsResponse(
        topics=[k75.DescribeTopicPartitionsResponseTopic(name="orders")],
        next_cursor=k75.Cursor(topic_name="orders", partition_index=1),
    )
    with AdminServer({75: lambda _: stuck}) as server, Admin(bootstrap=server.bootstrap) as admin:
        admin.describe_topic_partitions(["orders"])
        assert len(server.requests(75)) == 2
