"""The arguments of an admin client, from keywords and settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from penstock.client.addresses import BootstrapLike, address_problem, join_addresses
from penstock.client.cluster.routing import API_TIMEOUT_MS
from penstock.client.namespace import Namespace
from penstock.client.transport.security import Security

if TYPE_CHECKING:
    from penstock.client.settings import SettingValue

SettingsLike: TypeAlias = Mapping[str, "SettingValue"] | None

CLIENT_ID = "penstock-admin"
REQUEST_TIMEOUT_MS = 30_000
KNOWN = (
    "api_timeout_s",
    "bootstrap",
    "client_id",
    "namespace",
    "security",
    "timeout_s",
)


@dataclass(frozen=True, slots=True)
class AdminOptions:
    bootstrap: str
    client_id: str
    timeout_ms: int
    api_timeout_ms: int
    security: Security | None
    namespace: str | Namespace | None
    ignored: tuple[tuple[str, str], ...] = ()  # keys without an effect, and why

    @classmethod
    def of(
        cls,
        settings: SettingsLike,
        bootstrap: BootstrapLike | None,
        client_id: str | None,
        timeout_s: float | None,
        api_timeout_s: float | None,
        security: Security | None,
        namespace: str | Namespace | None,
    ) -> "AdminOptions":
        """Combine keywords and settings; keywords come first. Raise SettingRefused
        without an address."""
        timeout_ms, api_timeout_ms = _milliseconds(timeout_s), _milliseconds(api_timeout_s)
        if settings is None:
            addresses = "" if bootstrap is None else join_addresses(bootstrap)
            if not addresses.strip() or address_problem(addresses):
                _reject_addresses(addresses)
            request_ms = REQUEST_TIMEOUT_MS if timeout_ms is None else timeout_ms
            return cls(
                addresses,
                client_id or CLIENT_ID,
                request_ms,
                max(API_TIMEOUT_MS, request_ms) if api_timeout_ms is None else api_timeout_ms,
                security,
                namespace,
            )
        # Loaded at use: commands do without it.
        from penstock.client.settings import admin_settings

        said = admin_settings(settings, bootstrap=bootstrap)
        return cls(
            said.bootstrap,
            client_id or said.client_id,
            said.request_timeout_ms if timeout_ms is None else timeout_ms,
            said.api_timeout_ms if api_timeout_ms is None else api_timeout_ms,
            security or said.security,
            said.namespace if namespace is None else namespace,
            said.ignored,
        )


def _reject_addresses(addresses: str) -> NoReturn:
    """Raise the SettingRefused of the other clients."""
    # Loaded at use: commands do without it.
    from penstock.client.settings import admin_settings

    admin_settings({}, bootstrap=addresses)
    raise AssertionError("the settings reject the same addresses")


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
