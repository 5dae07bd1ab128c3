"""A connection of the admin client: within the time limit of its call, in its namespace."""

from typing import TypeVar

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
        if not self._namespace:
            return self._request_in_time(message, expect, version)
        # Loaded at use: the table names the messages of most APIs.
        from penstock.client.admin.namespace_translation import into_namespace, out_of_namespace

        said = into_namespace(self._namespace, message)
        return out_of_namespace(self._namespace, self._request_in_time(said, expect, version))

    def _request_in_time(self, message: object, expect: type[R], version: int) -> R:
        self.link.wait_at_most(self._limit.left_ms(self._request_timeout_ms))
        try:
            with self._limit.waiting(self.link):
                return super().request(message, expect, version)
        finally:
            # Readers and writers use the same connection, outside of any call.
            if not self.closed:
                self.link.wait_at_most(self._request_timeout_ms)
