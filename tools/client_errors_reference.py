"""Writes the reference of errors, docs/reference/errors.md, from the classes.

python -m tools.client_errors_reference > docs/reference/errors.md
"""

from collections.abc import Iterable

from penstock.client.failures import kinds
from penstock.client.failures.kinds import ClientError
from penstock.client.failures.local import LOCAL_BY_CODE
from penstock.errors import BY_CODE
from penstock.next_steps import NEXT_STEPS

_HEAD = """\
# Errors

Made from the code by `make reference`; do not edit.

Clients raise one class per error, and each text ends with the next step. **Retriable** says whether
the same call may succeed later; of an error at hand, `penstock.client.failures` tells more:
`is_retriable(error)`, `is_fatal(error)` (the client is of no use any more), `requires_abort(error)`
(the open transaction has to be aborted), `next_step(error)`.
"""


def reference() -> str:
    """Return the whole page."""
    parts = [_HEAD, "\n## Of the clients\n", "In `penstock.client.failures`.\n", *_own()]
    parts += ["\n## What librdkafka finds itself\n"]
    parts += ["`LocalError` in `penstock.client.failures`; codes are librdkafka's.\n", *_local()]
    parts += ["\n## What a broker answers\n"]
    parts += ["`KafkaError` in `penstock.errors`; codes are Kafka's.\n", *_answered()]
    return "\n".join(parts) + "\n"


def _own() -> Iterable[str]:
    yield "| class | retriable | what happened | next step |"
    yield "|---|---|---|---|"
    for each in vars(kinds).values():
        if isinstance(each, type) and issubclass(each, ClientError) and each is not ClientError:
            step = each.next_step or each().next_step
            yield _line(f"`{each.__name__}`", _yes(each.retriable), each.summary(), step)


def _local() -> Iterable[str]:
    yield "| code | name | class | retriable | what happened | next step |"
    yield "|---|---|---|---|---|---|"
    for code, each in sorted(LOCAL_BY_CODE.items(), reverse=True):
        yield _line(
            str(code),
            f"`{each.name}`",
            f"`{each.__name__}`",
            _yes(each.retriable),
            each.summary(),
            each.next_step,
        )


def _answered() -> Iterable[str]:
    yield "| code | name | class | retriable | what happened | next step |"
    yield "|---|---|---|---|---|---|"
    for code, each in sorted(BY_CODE.items()):
        yield _line(
            str(code),
            f"`{each.kafka_name()}`",
            f"`{each.__name__}`",
            _yes(each.retriable),
            each.summary(),
            NEXT_STEPS.get(each.kafka_name(), ""),
        )


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    print(reference(), end="")
