"""Every API in every version, with every permission missing once, as Apache Kafka answers it.

kafka_4_3_1_access.json is recorded from Apache Kafka by `python -m compat access`, never made from
security/permissions.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from access_cases import CASES
from access_runner import AccessRun, Recorded
from access_servers import SimulatedServer

from penstock.broker.handlers import HANDLERS

EXPECTED: Recorded = json.loads(
    (Path(__file__).parent / "kafka_4_3_1_access.json").read_text(encoding="utf-8")
)
# APIs without permissions, and those that Apache Kafka does not have or changes itself with.
NOT_IN_TABLE = {
    17: "login",
    18: "needs nothing",
    36: "login",
    70: "would register a controller in the cluster that is recorded",
    10_000: "our own",
}


@pytest.fixture(scope="module")
def answered() -> Iterator[Recorded]:
    with SimulatedServer() as server:
        yield AccessRun(server).record()


@pytest.mark.parametrize("title", [case.title for case in CASES])
def test_access_is_decided_as_by_kafka(answered: Recorded, title: str) -> None:
    assert answered[title] == EXPECTED[title]


def test_the_table_has_every_api() -> None:
    assert HANDLERS.keys() - {case.key for case in CASES} <= NOT_IN_TABLE.keys()
