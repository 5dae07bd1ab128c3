"""Random peers that send anything the wire allows, while time passes. PENSTOCK_SIM_RUNS says how
many lives there are."""

import logging
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hostile_groups import HostileGroups
from hostile_transactions import HostileTransactions

from depth import seeds
from penstock.coordinator.groups.classic.outcome_builder import ClassicOutcomeBuilder
from penstock.coordinator.groups.consumer.outcome_builder import (
    ConsumerOutcomeBuilder as ConsumerTurn,
)
from penstock.testing.sim.world import repeatable

SEEDS = seeds(80, few=8)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_request_to_a_group_fails_in_the_server(seed: int) -> None:
    groups = HostileGroups(seed)
    with repeatable(seed, __file__, lambda: "\n".join(groups.trace[-40:])):
        groups.run()


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_inside_every_request_is_answered_and_the_group_lives_on(
    seed: int, monkeypatch: pytest.MonkeyPatch, machine_failures: list[logging.LogRecord]
) -> None:
    groups = HostileGroups(seed)
    with repeatable(seed, __file__, lambda: "\n".join(groups.trace[-40:])):
        with monkeypatch.context() as patch:
            for turn in (ClassicOutcomeBuilder, ConsumerTurn):
                patch.setattr(turn, "watch", fails_at_times(turn.watch, groups.chance))
            groups.run()
        machine_failures.clear()
        groups.restart()
        groups.assign_to_another()
    assert not machine_failures


def fails_at_times(method: Callable[..., None], chance: Random) -> Callable[..., None]:
    def watch(*arguments: Any) -> None:
        method(*arguments)
        if chance.random() < 0.05:
            raise RuntimeError("ours")

    return watch


@pytest.mark.parametrize("seed", SEEDS)
def test_no_request_about_a_transaction_fails_in_the_server(seed: int) -> None:
    transactions = HostileTransactions(seed)
    with repeatable(seed, __file__, lambda: "\n".join(transactions.trace[-40:])):
        transactions.run()
