"""Chooses the action for a request: the interceptions of one cluster, the newest first.

A test adds and ends them on its own thread; the node's loop asks for actions. After `end` the
test's function is not called any more.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeAlias

from penstock.testing.intercepting.actions import (
    Action,
    Delay,
    Drop,
    Fail,
    InterceptedRequest,
    Pass,
)
from penstock.wire.apis import APIS, Api
from penstock.wire.primitives import Malformed
from penstock.wire.schema import schema_of

WAIT_SECONDS_DEFAULT = 10.0
FETCH = 1

Answer: TypeAlias = Callable[[InterceptedRequest[Any]], Action | None] | Action


class Interception:
    """An active interception. Ends with its `with`, by `end`, or after `times` requests.

    An exception of the test's function ends it too: the request's connection is dropped, and `end`,
    the `with`, or the end of the cluster raises the exception.
    """

    def __init__(self, taps: "Taps", api: Api, answer: Answer, times: int | None) -> None:
        self.api = api.name
        self.api_key = api.key
        self._taps = taps
        self._answer = answer
        self._left = times
        self._count = 0
        self._error: Exception | None = None
        self._acted = threading.Condition()

    @property
    def count(self) -> int:
        """Return the number of requests that did not pass so far."""
        return self._count

    @property
    def active(self) -> bool:
        return self._taps.has(self)

    def wait(self, count: int = 1, timeout_s: float = WAIT_SECONDS_DEFAULT) -> None:
        """Wait until so many requests did not pass; raise AssertionError after the timeout."""
        with self._acted:
            came = self._acted.wait_for(
                lambda: self._count >= count or self._error is not None, timeout_s
            )
        self._raise()
        if not came:
            raise AssertionError(
                f"{self._count} of {count} {self.api} requests were intercepted within "
                f"{timeout_s:g} seconds"
            )

    def end(self) -> None:
        """Let every request pass again; delayed and silenced ones stay as they are."""
        self._taps.remove(self)
        self._raise()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # -- on the node's loop

    def decide(self, request: InterceptedRequest[Any]) -> Action:
        try:
            action = self._answer(request) if callable(self._answer) else self._answer
            check_action(action)
        except Malformed:
            raise  # a fault of the client
        except Exception as error:
            return self.failed(error)
        if action is None or isinstance(action, Pass):
            return Pass()
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self._taps.remove(self)
        with self._acted:
            self._count += 1
            self._acted.notify_all()
        return action

    def failed(self, error: Exception) -> Drop:
        """Keep the exception of the test's function, and drop the connection."""
        self._taps.remove(self)
        with self._acted:
            self._error = error
            self._acted.notify_all()
        return Drop()

    def _raise(self) -> None:
        """Raise the kept exception, once."""
        with self._acted:
            error, self._error = self._error, None
        self._taps.settled(self)
        if error is not None:
            raise error


def check_action(action: object) -> None:
    if action is None or isinstance(action, Action):
        for each in (action, action.then if isinstance(action, Delay) else None):
            if isinstance(each, Fail):
                each.exception()
        return
    raise TypeError(
        f"an interception answers with Pass, Fail, Delay, Silence or Drop, not with {action!r}"
    )


class Decided(NamedTuple):
    """The action for a request, and its interception."""

    action: Action
    request: InterceptedRequest[Any]
    interception: Interception


class Taps:
    """All interceptions of a cluster."""

    def __init__(self) -> None:
        # Held while a test's function decides, so that `remove` waits for it. Reentrant for the
        # function's own thread.
        self._lock = threading.RLock()
        self._by_key: dict[int, tuple[Interception, ...]] = {}
        self._unsettled: dict[Interception, None] = {}

    @property
    def any(self) -> bool:
        return bool(self._by_key)

    def add(self, api: Api, answer: Answer, times: int | None) -> Interception:
        made = Interception(self, api, answer, times)
        with self._lock:
            self._by_key[api.key] = (made, *self._by_key.get(api.key, ()))
            self._unsettled[made] = None
        return made

    def remove(self, gone: Interception) -> None:
        with self._lock:
            left = tuple(each for each in self._by_key.get(gone.api_key, ()) if each is not gone)
            if left:
                self._by_key[gone.api_key] = left
            else:
                self._by_key.pop(gone.api_key, None)

    def has(self, interception: Interception) -> bool:
        return interception in self._by_key.get(interception.api_key, ())

    def settled(self, interception: Interception) -> None:
        """Forget an ended interception without an unraised exception."""
        with self._lock:
            if not self.has(interception):
                self._unsettled.pop(interception, None)

    def end_all(self) -> None:
        """End all; raise an exception of a test's function that was not raised yet."""
        with self._lock:
            ending = list(self._unsettled)
            self._by_key.clear()
        for each in ending:
            each.end()

    def decide(self, key: int, request: Callable[[], InterceptedRequest[Any]]) -> Decided | None:
        """Return the decision, or None if the request passes. Raise Malformed if an interception
        needs to parse a malformed request."""
        if key not in self._by_key:
            return None
        with self._lock:
            shown: InterceptedRequest[Any] | None = None
            for each in self._by_key.get(key, ()):
                shown = shown or request()
                if key == FETCH and _is_of_follower(shown):
                    return None
                action = each.decide(shown)
                if not isinstance(action, Pass):
                    return Decided(action, shown, each)
        return None


def _is_of_follower(request: InterceptedRequest[Any]) -> bool:
    """Return whether a fetch is that of another node, and not of a client."""
    from penstock.broker.fetch.replica_fetch import replica_of

    return replica_of(request.message, request.version) is not None


def find_api(given: "str | int | type[Any]") -> Api:
    """Find an API by number, by name in any spelling (ListOffsets, list_offsets), or by request
    class."""
    if isinstance(given, type):
        key = schema_of(given).key if hasattr(given, "__schema__") else None
        if key is not None and not schema_of(given).response:
            return APIS[key]
        raise ValueError(f"{given.__name__} is not the class of a request")
    if isinstance(given, int):
        if given in APIS:
            return APIS[given]
        raise ValueError(f"there is no API with the number {given}")
    wanted = given.replace("_", "").replace("-", "").lower()
    for api in APIS.values():
        if api.name.lower() == wanted:
            return api
    raise ValueError(_unknown(given, wanted))


def _unknown(given: str, wanted: str) -> str:
    from difflib import get_close_matches

    names = {api.name.lower(): api.name for api in APIS.values()}
    near = [names[each] for each in get_close_matches(wanted, names, n=1)]
    return f"there is no API called {given}" + (f"; did you mean {near[0]}?" if near else "")
