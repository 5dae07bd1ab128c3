"""Results of the admin client: for each resource a value, or the error that it met."""

from collections.abc import Mapping
from typing import TypeVar

from penstock.errors import KafkaError

K = TypeVar("K")
T = TypeVar("T")


def value_of(result: T | KafkaError) -> T:
    """Return a value; raise an error."""
    if isinstance(result, KafkaError):
        raise result
    return result


def raise_first(results: Mapping[K, KafkaError | None]) -> None:
    """Raise the first error, if there is one."""
    for error in results.values():
        if error is not None:
            raise error


def split_results(results: Mapping[K, T | KafkaError]) -> tuple[dict[K, T], dict[K, KafkaError]]:
    """Return the values and the errors."""
    values = {each: got for each, got in results.items() if not isinstance(got, KafkaError)}
    return values, {each: got for each, got in results.items() if isinstance(got, KafkaError)}
