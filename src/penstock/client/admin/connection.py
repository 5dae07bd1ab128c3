"""A connection of the admin client: within the time limit of its call, in its namespace."""

from typing import TypeVar

from penstock.client.admin.namespace_translation import into_namespace, out_of_namespace
from penstock.client.cluster.limits import CallLimit
from penstock.client.namespace import Namespace
from penstock.client.transport.connection import Connection
from penstock.client.transport.security import Security

R = TypeVar("R")


class AdminConnection(Connection):
    """A connection whose `request` keeps the time limit of the call and translates names both
    ways."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        security: Security | None,
        limit: CallLimit,
        namespace: Namespace,
    ) -> None:
        self._limit = limit
        self._namespace = namespace
        self._request_timeout_ms = timeout_ms
        super().__init__(
            host,
            port,
            client_id=client_id,
            timeout_ms=limit.left_ms(timeout_ms),
            security=security,
        )
        self.link.wait_at_most(timeout_ms)

    def request(self, message: object, expect: type[R], version: int | None = None) -> R:
        if version is None:
            version = self.version_for(message)
        said = into_namespace(self._namespace, message) if self._namespace else message
        self.link.wait_at_most(self._limit.left_ms(self._request_timeout_ms))
        try:
            with self._limit.waiting(self.link):
                answer = super().request(said, expect, version)
        finally:
            # Readers and writers use the same connection, outside of any call.
            if not self.closed:
                self.link.wait_at_most(self._request_timeout_ms)
        return out_of_namespace(self._namespace, answer) if self._namespace else answer
