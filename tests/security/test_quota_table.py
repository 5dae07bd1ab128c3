"""Which quota a client has, and which meter it shares with whom."""

import pytest

from penstock.security.quotas.quota_table import (
    CONNECTION,
    FETCH,
    PRODUCE,
    MeteredQuota,
    QuotaTable,
)
from penstock.wire.records.metadata import ClientQuotaRecord
from penstock.wire.structures import EntityData

ALICE, APP = "alice", "app"
# From the most specific one down: entity, and the meter of alice's client `app` under it.
LEVELS: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
    ({"user": ALICE, "client-id": APP}, (ALICE, APP)),
    ({"user": ALICE, "client-id": None}, (ALICE, APP)),
    ({"user": ALICE}, (ALICE, None)),
    ({"user": None, "client-id": APP}, (ALICE, APP)),
    ({"user": None, "client-id": None}, (ALICE, APP)),
    ({"user": None}, (ALICE, None)),
    ({"client-id": APP}, (None, APP)),
    ({"client-id": None}, (None, APP)),
]


def quota(entity: dict[str, str | None], value: float, key: str = PRODUCE) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value)


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_the_most_specific_quota_counts(level: int) -> None:
    known = [quota(entity, place + 1) for place, (entity, _) in enumerate(LEVELS)]
    found = QuotaTable(known[level:]).find(PRODUCE, ALICE, APP)
    assert found == MeteredQuota(level + 1, LEVELS[level][1])


@pytest.mark.parametrize("entity", [entity for entity, _ in LEVELS if None not in entity.values()])
def test_a_named_quota_is_no_quota_of_others(entity: dict[str, str | None]) -> None:
    assert QuotaTable([quota(entity, 1)]).find(PRODUCE, "bob", "other") is None


def test_a_less_specific_quota_counts_for_a_kind_that_the_specific_entity_lacks() -> None:
    table = QuotaTable([quota({"user": ALICE}, 1, PRODUCE), quota({"user": None}, 2, FETCH)])
    assert table.find(FETCH, ALICE, APP) == MeteredQuota(2, (ALICE, None))


def test_a_table_without_quotas_of_a_kind_limits_nobody() -> None:
    table = QuotaTable([quota({"user": ALICE}, 1, FETCH)])
    assert not table.limits(PRODUCE)
    assert table.find(PRODUCE, ALICE, APP) is None


def test_an_address_has_its_own_rate_or_the_default_one() -> None:
    records = [quota({"ip": "10.0.0.7"}, 1, CONNECTION), quota({"ip": None}, 2, CONNECTION)]
    table = QuotaTable(records)
    assert (table.of_address("10.0.0.7"), table.of_address("10.0.0.8")) == (1, 2)
    assert QuotaTable(records[:1]).of_address("10.0.0.8") is None
