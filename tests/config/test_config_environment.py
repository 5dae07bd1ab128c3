"""KAFKA_* variables in the spelling of Apache's image."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.environment import key_of_variable, settings_in, variable_of_key
from penstock.config.table import BROKER_KEYS


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_LISTENER_NAME_X_SCRAM___SHA___512_SASL_JAAS_CONFIG",
         "listener.name.x.scram-sha-512.sasl.jaas.config"),
    ],
)  # fmt: skip
def test_underscores_stand_for_dots_underscores_and_dashes(variable: str, key: str) -> None:
    assert key_of_variable(variable) == key
    assert variable_of_key(key) == variable


@given(st.sampled_from(sorted(BROKER_KEYS)))
def test_every_key_has_a_variable(key: str) -> None:
    assert key_of_variable(variable_of_key(key)) == key


def test_variables_that_are_no_configuration_are_left_alone() -> None:
    environment = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "",
        "KAFKA_CLUSTER_ID": "x",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "PATH": "/bin",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    assert list(settings_in(environment)) == [("KAFKA_NUM_PARTITIONS", "num.partitions", "3")]
