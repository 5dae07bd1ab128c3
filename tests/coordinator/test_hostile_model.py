"""Random peers that send anything the wire allows, while time passes. PENSTOCK_SIM_RUNS says how
many lives there are."""

import os

import pytest
from hostile_groups import HostileGroups
from hostile_transactions import HostileTransactions

from penstock.testing.sim.repeating import repeatable

RUNS = int(os.environ.get("PENSTOCK_SIM_RUNS", "80"))
FIRST_SEED = int(os.environ.get("PENSTOCK_SIM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_no_request_to_a_group_fails_in_the_server(seed: int) -> None:
    groups = HostileGroups(seed)
    with repeatable(seed, __file__, lambda: "\n".join(groups.trace[-40:])):
        groups.run()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_no_request_about_a_transaction_fails_in_the_server(seed: int) -> None:
    transactions = HostileTransactions(seed)
    with repeatable(seed, __file__, lambda: "\n".join(transactions.trace[-40:])):
        transactions.run()
