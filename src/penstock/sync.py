"""The blocking twins of the asyncio clients: the same names and methods, without await.

from penstock.sync import Admin, Consumer, Producer
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.consumer.blocking import Consumer
    from penstock.client.producer.blocking import Producer
    from penstock.client.producer.blocking_core import Delivery

_MODULES = {
    "Admin": "penstock.client.admin.blocking",
    "Consumer": "penstock.client.consumer.blocking",
    "Delivery": "penstock.client.producer.blocking_core",
    "Producer": "penstock.client.producer.blocking",
}

__all__ = ["Admin", "Consumer", "Delivery", "Producer"]


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
