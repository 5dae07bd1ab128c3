"""Questions to several coordinators of this node, and the one answer that is made of theirs."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.sliced_work import Slices
from penstock.coordinator.groups.machine import GroupCoordinator
from penstock.errors import KafkaError
from penstock.machine.runtime import Runtime

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.request import Request


def ask_each(asked: Sequence[tuple[Runtime[Any], Any]], done: Callable[[list[Any]], None]) -> None:
    """`done` gets what each one said, in the order in which they were asked, when all have."""
    answers: dict[int, Any] = {}

    def hear(place: int, answer: Any) -> None:
        answers[place] = answer
        if len(answers) == len(asked):
            done([answers[each] for each in range(len(asked))])

    for place, (runtime, event) in enumerate(asked):
        runtime.submit(event, partial(hear, place))
    if not asked:
        done([])


def ask_in_turn(runtimes: Iterable[Runtime[Any]], event: Any) -> Slices[list[Any]]:
    """Ask one coordinator per slice; return the answers of all, in this order."""
    asked = list(runtimes)
    answers: dict[int, Any] = {}
    waiting: list[Callable[[], None]] = []

    def hear(place: int, answer: Any) -> None:
        answers[place] = answer
        if waiting and len(answers) == len(asked):
            waiting.pop()()

    for place, runtime in enumerate(asked):
        runtime.submit(event, partial(hear, place))
        yield None
    if len(answers) < len(asked):
        yield waiting.append
    return [answers[place] for place in range(len(asked))]


def ask_about_groups(
    broker: "Broker",
    request: "Request",
    group_ids: Iterable[str],
    question: Callable[[list[str]], Any],
    done: Callable[[list[tuple[list[str], Any]]], None],
) -> None:
    """Ask each coordinator about its groups, all in one message.

    `done` gets groups with what was said of them: a response, or the KafkaError instead of it.
    """
    said: list[tuple[list[str], Any]] = []
    by_runtime: dict[Runtime[GroupCoordinator], list[str]] = {}
    for group_id in dict.fromkeys(group_ids):
        try:
            runtime = broker.coordinators.group_runtime(group_id)
        except KafkaError as error:
            said.append(([group_id], error))
        else:
            by_runtime.setdefault(runtime, []).append(group_id)

    def heard(answers: list[Any]) -> None:
        done([*said, *zip(by_runtime.values(), answers, strict=True)])

    ask_each(
        [
            (runtime, broker.coordinators.call(request, question(mine)))
            for runtime, mine in by_runtime.items()
        ],
        heard,
    )
