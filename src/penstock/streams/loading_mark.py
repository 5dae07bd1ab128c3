"""Whether a script is being read for its topology: then `app.run()` at its end does nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_loading: ContextVar[bool] = ContextVar("penstock_streams_loading", default=False)


def is_loading() -> bool:
    return _loading.get()


@contextmanager
def loading() -> Iterator[None]:
    token = _loading.set(True)
    try:
        yield
    finally:
        _loading.reset(token)
