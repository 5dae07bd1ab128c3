"""Requests to several coordinators of this node, and their answers as one list."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.broker.coordinator_errors import to_client_error
from penstock.broker.sliced_work import Slices
from penstock.coordinator.groups.machine import GroupCoordinator
from penstock.errors import NONE, KafkaError
from penstock.machine.runtime import Runtime

if TYPE_CHECKING:
    from penstock.broker.coordinators.coordinators import Coordinators
    from penstock.broker.request import ClientRequest

G = TypeVar("G")  # a described group


def ask_each(asked: Sequence[tuple[Runtime[Any], Any]], done: Callable[[list[Any]], None]) -> None:
    """Submit events; call `done` with all answers, in the order of the events."""
    answers: dict[int, Any] = {}

    def take_answer(place: int, answer: Any) -> None:
        answers[place] = answer
        if len(answers) == len(asked):
            done([answers[each] for each in range(len(asked))])

    for place, (runtime, event) in enumerate(asked):
        runtime.submit(event, partial(take_answer, place))
    if not asked:
        done([])


def ask_in_turn(runtimes: Iterable[Runtime[Any]], event: Any) -> Slices[list[Any]]:
    """Ask one coordinator per slice; return all answers in the same order."""
    asked = list(runtimes)
    answers: dict[int, Any] = {}
    waiting: list[Callable[[], None]] = []

    def take_answer(place: int, answer: Any) -> None:
        answers[place] = answer
        if waiting and len(answers) == len(asked):
            waiting.pop()()

    for place, runtime in enumerate(asked):
        runtime.submit(event, partial(take_answer, place))
        yield None
    if len(answers) < len(asked):
        yield waiting.append
    return [answers[place] for place in range(len(asked))]


def ask_about_groups(
    coordinators: "Coordinators",
    request: "ClientRequest",
    group_ids: Iterable[str],
    question: Callable[[list[str]], Any],
    done: Callable[[list[tuple[list[str], Any]]], None],
) -> None:
    """Ask each coordinator about its groups, all in one message.

    `done` gets lists of groups, each with the response for them or a KafkaError.
    """
    replies: list[tuple[list[str], Any]] = []
    by_runtime: dict[Runtime[GroupCoordinator], list[str]] = {}
    for group_id in dict.fromkeys(group_ids):
        try:
            runtime = coordinators.group_runtime(group_id)
        except KafkaError as error:
            replies.append(([group_id], error))
        else:
            by_runtime.setdefault(runtime, []).append(group_id)

    def answered(answers: list[Any]) -> None:
        done([*replies, *zip(by_runtime.values(), answers, strict=True)])

    ask_each(
        [
            (runtime, coordinators.call(request, question(mine)))
            for runtime, mine in by_runtime.items()
        ],
        answered,
    )


def described_groups(
    replies: Iterable[tuple[list[str], Any]],
    rejected: Callable[..., G],
    operations_on: Callable[[str], int] | None,
) -> dict[str, G]:
    """Return the descriptions by group; `rejected` makes the one of a group with an error.
    `operations_on` returns the authorized operations on a group, if the request asks for them."""
    described: dict[str, Any] = {}
    for group_ids, answer in replies:
        if isinstance(answer, KafkaError):
            error = to_client_error(answer)
            code, message = error.code, error.message
            for each in group_ids:
                described[each] = rejected(group_id=each, error_code=code, error_message=message)
        else:
            described.update(zip(group_ids, answer.groups, strict=True))
    if operations_on is not None:
        for group in described.values():
            if group.error_code == NONE:
                group.authorized_operations = operations_on(group.group_id)
    return described
