"""The actions of a broker on an intercepted request, and the request as a test sees it."""

from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from penstock.errors import BY_CODE, KafkaError, from_code
from penstock.wire.apis import APIS, request_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_request_header

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Pass:
    """Handle the request normally."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Do not handle the request, and respond with an error: a class or an exception of
    `penstock.errors`, or its code. The error appears in the API's error fields, for every topic and
    partition of the request."""

    error: KafkaError | type[KafkaError] | int

    def exception(self) -> KafkaError:
        """Return the exception; raise ValueError for an unknown code."""
        if isinstance(self.error, KafkaError):
            return self.error
        if isinstance(self.error, int):
            if self.error not in BY_CODE:
                raise ValueError(f"Kafka has no error with the code {self.error}")
            return from_code(self.error)
        return self.error()


@dataclass(frozen=True, slots=True)
class Silence:
    """Never respond, nor to later requests of the same connection. With `handled` the request takes
    effect and only the response is lost."""

    handled: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection instead of responding; with `handled` the request takes effect."""

    handled: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, by the node's clock, before the request is handled; later requests of the connection
    wait too. Then handle it, or take another action."""

    seconds: float
    then: "Pass | Fail | Silence | Drop" = field(default_factory=Pass)

    def __post_init__(self) -> None:
        if self.seconds < 0:
            raise ValueError(f"a delay of {self.seconds} seconds: a delay cannot be negative")


Action: TypeAlias = Pass | Fail | Delay | Silence | Drop


class InterceptedRequest(Generic[M]):
    """A request on its way into a node. `message` is typed: penstock.wire.messages has one class
    per API, with the fields of all its versions."""

    __slots__ = (
        "_frame",
        "_message",
        "api_key",
        "client_address",
        "client_id",
        "correlation_id",
        "node",
        "version",
    )

    def __init__(self, frame: bytes, node: int, client_address: tuple[str, int]) -> None:
        """Parse the header of `frame`, which comes without its size."""
        header = parse_request_header(frame)
        self.api_key = header.api_key
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.client_address = client_address
        self.node = node
        self._frame = frame
        self._message: M | None = None

    @property
    def api(self) -> str:
        """Return the name of the API in Kafka's spelling, e.g. ListOffsets."""
        return APIS[self.api_key].name

    @property
    def message(self) -> M:
        if self._message is None:
            position = parse_request_header(self._frame).body_position
            made: M = read(request_class(self.api_key), self.version, self._frame, position)
            self._message = made
        return self._message

    def __repr__(self) -> str:
        return f"<{self.api} v{self.version} from {self.client_id!r}: {self.message!r}>"
