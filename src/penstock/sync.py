"""The blocking twins of the asyncio clients: the same names and methods, without await.

from penstock.sync import Admin, Consumer, Producer
"""

from typing import TYPE_CHECKING

from penstock.late import loaded_late

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.consumer.blocking import Consumer
    from penstock.client.producer.blocking import Producer
    from penstock.client.producer.polling.blocking_core import Delivery

_MODULES = {
    "Admin": "penstock.client.admin.blocking",
    "Consumer": "penstock.client.consumer.blocking",
    "Delivery": "penstock.client.producer.polling.blocking_core",
    "Producer": "penstock.client.producer.blocking",
}

__all__ = ["Admin", "Consumer", "Delivery", "Producer"]

__getattr__ = loaded_late(globals(), _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
