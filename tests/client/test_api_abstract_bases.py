"""The common inside of clients cannot be used without its missing parts."""

import pytest

from penstock.client.producer.sending.core import ProducerCore
from penstock.client.serde.schema_ids import SchemaSerde


@pytest.mark.parametrize(
    ("base", "missing"),
    [
        (ProducerCore, {"_close_hot_path", "drop_waiting", "open_count", "serve"}),
        (SchemaSerde, {"_compile"}),
    ],
)
def test_a_base_names_the_parts_that_a_subclass_adds(base: type, missing: set[str]) -> None:
    assert getattr(base, "__abstractmethods__", None) == missing
