"""The group of a key in __consumer_offsets."""

import pytest

from penstock.coordinator.records import group_id_of
from penstock.wire.records.coordinator import GROUP_RECORDS
from penstock.wire.records.transaction import TransactionLogKey
from penstock.wire.schema import schema_of


@pytest.mark.parametrize("key_class", GROUP_RECORDS.keys.values())
def test_every_kind_of_key_names_its_group(key_class: type) -> None:
    names = {field.name for field in schema_of(key_class).fields}
    name = "group" if "group" in names else "group_id"
    assert group_id_of(key_class(**{name: "orders"})) == "orders"


def test_a_key_of_another_topic_names_no_group() -> None:
    with pytest.raises(AssertionError, match="no key of a group"):
        group_id_of(TransactionLogKey(transactional_id="t"))
