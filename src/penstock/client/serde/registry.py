"""A client of a schema registry: Confluent's HTTP interface, with a cache and limits.

A schema with an id never changes, so each is requested once; the latest version of a subject is
requested again after a while. A call blocks its thread for at most `timeout_s` per address. For
event loops, the `unwaiting` twin raises NotToldYet instead.
"""

import base64
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.client.failures.kinds import ClientError
from penstock.client.serde.protocols import NotToldYet, SerdeRefused
from penstock.client.transport.tls_files import tls_context
from penstock.credentials.tls import Tls

ANSWER_BYTES_MAX = 4 * 1024 * 1024
ANSWER_PART_BYTES = 64 * 1024
ADDRESSES_MAX = 16
KEPT_MAX = 4_000
LATEST_KEPT_S = 300.0
TIMEOUT_S_DEFAULT = 10.0
REFERENCES_MAX = 100
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_WHOSE_ADDRESS = "See whether schema.registry.url is a schema registry's, and not another server's"
AVRO, JSON_SCHEMA = "AVRO", "JSON"

T = TypeVar("T")


class RegistryError(ClientError):
    """The schema registry did not fulfil a request."""

    def __init__(self, what: str = "", *, status: int = 0, code: int = 0, step: str = "") -> None:
        super().__init__(what, next_step=step)
        self.status = status
        self.code = code
        # No answer, or an error of the registry itself.
        self.retriable = status == 0 or status >= 500


class Reference(NamedTuple):
    """Another schema that a schema names."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in a registry."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()


class SchemaWithId(NamedTuple):
    """A schema and its id."""

    id: int
    schema: RegisteredSchema


class SchemaRegistry:
    """One registry, at one address or several, with `user` and `password`, or a `token`."""

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        timeout_s: float = TIMEOUT_S_DEFAULT,
    ) -> None:
        self._addresses = _addresses(url)
        self._timeout_s = timeout_s
        self._tls = tls
        self._headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
        credentials = _credentials(self._addresses, user, password)
        if credentials is not None and token is not None:
            raise SerdeRefused("a schema registry takes a user and password or a token, not both")
        if credentials is not None:
            self._headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        elif token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        # Schemas and ids by what was asked for.
        self._kept: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()
        self._waits = True

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(_shown(each) for each in self._addresses)})"

    def unwaiting(self) -> "SchemaRegistry":
        """Return a twin with the same cache for event loops: NotToldYet instead of a request."""
        twin = copy(self)
        twin._waits = False
        return twin

    def _answer(self, question: tuple[Hashable, ...], ask: Callable[[], T]) -> T:
        """Return the kept answer, or ask; in an event loop raise NotToldYet instead."""
        kept: T | None = self._kept.get(question)
        if kept is not None:
            return kept

        def keep() -> T:
            found = self._kept[question] = ask()
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
            return found

        if self._waits:
            return keep()
        raise NotToldYet(keep, question)

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of this id."""
        path = f"/schemas/ids/{schema_id}"
        return self._answer(("id", schema_id), lambda: _schema(self._ask("GET", path)))

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the id of this schema under the subject; register it if it is new."""
        return self._id_of(subject, schema, "/versions")

    def find(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the id of this schema, which the subject must have."""
        return self._id_of(subject, schema, "")

    def latest(self, subject: str) -> SchemaWithId:
        """Return the latest schema of the subject, cached for some minutes."""

        def ask() -> tuple[float, SchemaWithId]:
            answer = self._ask("GET", f"{_path(subject)}/versions/latest")
            found = SchemaWithId(_whole(answer, "id"), _schema(answer))
            self._kept["id", found.id] = found.schema
            return time.monotonic() + LATEST_KEPT_S, found

        question = ("latest", subject)
        kept = self._kept.get(question)
        if kept is not None and time.monotonic() >= kept[0]:
            self._kept.pop(question, None)
        return self._answer(question, ask)[1]

    def references(self, schema: RegisteredSchema) -> list[tuple[str, RegisteredSchema]]:
        """Return the schemas that this one refers to, indirectly too; referred ones come first."""
        found: dict[str, RegisteredSchema] = {}
        self._gather(schema, found)
        return list(found.items())

    def _gather(self, schema: RegisteredSchema, found: dict[str, RegisteredSchema]) -> None:
        for each in schema.references:
            if each.name in found:
                continue
            if len(found) >= REFERENCES_MAX:
                raise RegistryError(f"a schema refers to more than {REFERENCES_MAX} others")
            other = self._version(each.subject, each.version)
            found[each.name] = other  # before its own references: a circle ends here
            self._gather(other, found)
            found[each.name] = found.pop(each.name)

    def _version(self, subject: str, version: int) -> RegisteredSchema:
        path = f"{_path(subject)}/versions/{version}"
        return self._answer(("version", path), lambda: _schema(self._ask("GET", path)))

    def _id_of(self, subject: str, schema: RegisteredSchema, suffix: str) -> int:
        path = _path(subject) + suffix

        def ask() -> int:
            body: dict[str, object] = {"schema": schema.text}
            if schema.kind != AVRO:
                body["schemaType"] = schema.kind
            if schema.references:
                body["references"] = [each._asdict() for each in schema.references]
            return _whole(self._ask("POST", path, body), "id")

        return self._answer((path, schema), ask)

    def _ask(self, method: str, path: str, body: object = None) -> Mapping[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        problem: RegistryError | None = None
        for address in self._addresses:
            try:
                return self._ask_one(address, method, path, data)
            except RegistryError as failed:
                if not failed.retriable:
                    raise  # another address would give the same answer
                problem = failed
        assert problem is not None, "a registry has at least one address"
        raise problem

    def _ask_one(
        self, address: SplitResult, method: str, path: str, data: bytes | None
    ) -> Mapping[str, Any]:
        from http.client import HTTPException

        try:
            status, answer = self._exchange(address, method, address.path.rstrip("/") + path, data)
        except (OSError, HTTPException) as failed:
            raise RegistryError(
                f"no answer from the schema registry at {_shown(address)}: "
                f"{failed or type(failed).__name__}",
                step="See whether it runs, and whether schema.registry.url is right",
            ) from failed
        told = _parsed(answer)
        if 200 <= status < 300 and isinstance(told, dict):
            return told
        raise _refusal(address, path, status, told)

    def _exchange(
        self, address: SplitResult, method: str, path: str, data: bytes | None
    ) -> tuple[int, bytes]:
        from http.client import HTTPConnection, HTTPSConnection

        assert address.hostname is not None, "checked when it was given"
        deadline = time.monotonic() + self._timeout_s
        connection: HTTPConnection
        if address.scheme == "https":
            context = tls_context(self._tls or Tls())
            connection = HTTPSConnection(
                address.hostname, address.port, timeout=self._timeout_s, context=context
            )
        else:
            connection = HTTPConnection(address.hostname, address.port, timeout=self._timeout_s)
        try:
            connection.request(method, path, body=data, headers=self._headers)
            answer = connection.getresponse()
            parts: list[bytes] = []
            size = 0
            # In parts, so that a server that sends single bytes cannot hold the caller.
            while part := answer.read1(ANSWER_PART_BYTES):
                parts.append(part)
                size += len(part)
                if size > ANSWER_BYTES_MAX:
                    raise OSError(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError("its answer takes too long")
            return answer.status, b"".join(parts)
        finally:
            connection.close()


def _addresses(url: str) -> tuple[SplitResult, ...]:
    found = tuple(urlsplit(each.strip()) for each in url.split(",") if each.strip())
    if not 0 < len(found) <= ADDRESSES_MAX:
        raise SerdeRefused(f"schema.registry.url takes 1 to {ADDRESSES_MAX} addresses")
    for each in found:
        try:
            good = each.scheme in ("http", "https") and each.hostname and (each.port or 1) > 0
        except ValueError:
            good = False
        if not good:
            raise SerdeRefused(
                f"schema.registry.url={_shown(each)} is no address; it looks like "
                "http://127.0.0.1:8081"
            )
    return found


def _credentials(
    addresses: tuple[SplitResult, ...], user: str | None, password: str | None
) -> bytes | None:
    if user is None and addresses[0].username:
        user = unquote(addresses[0].username)
        password = unquote(addresses[0].password or "")
    return None if user is None else f"{user}:{password or ''}".encode()


def _shown(address: SplitResult) -> str:
    """Return the address without user and password."""
    return address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _parsed(answer: bytes) -> object:
    try:
        return json.loads(answer)
    except ValueError:
        return None


def _refusal(address: SplitResult, path: str, status: int, told: object) -> RegistryError:
    said = told if isinstance(told, dict) else {}
    code = said.get("error_code")
    code = code if isinstance(code, int) else 0
    text = str(said.get("message") or "no reason given")[:500]
    step = ""
    if status in (401, 403):
        step = "Check basic.auth.user.info, and what the user may do there"
    elif status < 300 or (status == 404 and not said):
        text = "the answer is no JSON object"
        step = _WHOSE_ADDRESS
    elif status == 404:
        step = (
            "Register the schema first, or let the serializer do it (auto_register=True)"
            if path.startswith("/subjects")
            else "Is it the registry that the sender used?"
        )
    elif status == 409:
        step = "Change the schema so that it is compatible with what the subject has"
    return RegistryError(
        f"the schema registry at {_shown(address)} answered {path} with {status}: {text}",
        status=status,
        code=code,
        step=step,
    )


def _no_answer(what: str) -> RegistryError:
    return RegistryError(what, status=200, step=_WHOSE_ADDRESS)


def _schema(answer: Mapping[str, Any]) -> RegisteredSchema:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise _no_answer("the answer of the schema registry has no schema")
    references = answer.get("references") or ()
    try:
        found = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in references
        )
    except (KeyError, TypeError, ValueError):
        raise _no_answer("the references of a schema cannot be read") from None
    return RegisteredSchema(text, str(answer.get("schemaType") or AVRO), found)


def _whole(answer: Mapping[str, Any], name: str) -> int:
    number = answer.get(name)
    if not isinstance(number, int):
        raise _no_answer(f"the answer of the schema registry has no {name}")
    return number
