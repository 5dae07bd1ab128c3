"""Settings of coordinators that change while a broker runs: they hold from the next request on."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from api_asking import Asker, asking, find_coordinator, unused_name
from txn_asking import Txn

from penstock.broker.transactions.txn_verification import TxnVerification
from penstock.config import BROKER_KEYS, BrokerConfig, Mode, Value
from penstock.config.key_fields import read_configured
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.errors import CoordinatorLoadInProgress
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k32_describe_configs as k32
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages import k68_consumer_group_heartbeat as k68
from penstock.wire.messages import k69_consumer_group_describe as k69

BROKER, SET = 4, 0
CLUSTER_SOURCE = 3
INTERVAL = "group.consumer.assignment.interval.ms"
VERIFICATION = "transaction.partition.verification.enable"
TRIES_MAX = 1_000


@pytest.fixture
def asker() -> Iterator[Asker]:
    # The interval is longer than a test takes: only a change ends such a wait.
    few = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with Cluster({INTERVAL: 15_000, **few}) as cluster:
        cluster.create_topic("t", partitions=2)
        with asking(cluster) as opened:
            yield opened


def _set(asker: Asker, name: str, value: str) -> None:
    configs = [k44.AlterableConfig(name=name, config_operation=SET, value=value)]
    wanted = k44.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=configs)
    [one] = asker.ask(k44.IncrementalAlterConfigsRequest(resources=[wanted]), 1).responses
    assert one.error_code == 0, one.error_message


def _beat(asker: Asker, group: str, member: str, epoch: int) -> k68.ConsumerGroupHeartbeatResponse:
    joining = epoch == 0
    request = k68.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joining else -1,
        subscribed_topic_names=["t"] if joining else None,
        topic_partitions=[] if joining else None,
    )
    answer = asker.ask(request, 1)
    for _ in range(TRIES_MAX):
        if answer.error_code != CoordinatorLoadInProgress.code:
            break
        answer = asker.ask(request, 1)
    assert isinstance(answer, k68.ConsumerGroupHeartbeatResponse)
    assert answer.error_code == 0, answer.error_message
    return answer


def _state(asker: Asker, group: str) -> str:
    [described] = asker.ask(k69.ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    return str(described.group_state)


def test_a_group_that_waits_for_its_next_assignment_hears_of_a_shorter_interval(
    asker: Asker,
) -> None:
    group = unused_name()
    find_coordinator(asker, 0, group)
    _beat(asker, group, "a", 0)
    newcomer = _beat(asker, group, "b", 0)
    _beat(asker, group, "b", newcomer.member_epoch)
    assert _state(asker, group) == "Assigning"
    _set(asker, INTERVAL, "0")
    _beat(asker, group, "b", newcomer.member_epoch)
    assert _state(asker, group) == "Reconciling"


def test_verification_is_switched_off_and_on_while_producers_work(asker: Asker) -> None:
    txn = Txn(asker, v2=False).begun()
    assert txn.send("t", txn.records("t", b"a")) != 0
    _set(asker, VERIFICATION, "false")
    assert txn.send("t", txn.records("t", b"a")) == 0
    _set(asker, VERIFICATION, "true")
    other = Txn(asker, v2=False).begun()
    assert other.send("t", other.records("t", b"a")) != 0


def test_a_dynamic_setting_holds_after_a_restart_too(tmp_path: Path) -> None:
    cluster = Cluster(data=tmp_path)
    with cluster, asking(cluster) as asker:
        _set(asker, INTERVAL, "3000")
        cluster.stop()
        cluster.start()
        with asking(cluster) as again:
            wanted = k32.DescribeConfigsResource(
                resource_type=BROKER, resource_name="1", configuration_keys=[INTERVAL]
            )
            [result] = again.ask(k32.DescribeConfigsRequest(resources=[wanted]), 4).results
            [entry] = result.configs
            assert (entry.value, entry.config_source) == ("3000", CLUSTER_SOURCE)


# -- what is read once must not be able to change


class Asked(BrokerConfig):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__({})
        self.names: list[str] = []

    def get(self, name: str) -> Value:
        self.names.append(name)
        return super().get(name)


def test_what_coordinators_read_once_cannot_change_while_a_broker_runs() -> None:
    config = Asked()
    GroupSettings.of(config)
    read_configured(TransactionSettings, config)
    TxnVerification(SimpleNamespace(config=config))
    assert len(config.names) > 20
    assert [name for name in config.names if BROKER_KEYS[name].mode is not Mode.READ_ONLY] == []
