"""Event streaming in Python that speaks Kafka's protocol.

from penstock import Admin, Consumer, Producer

Nothing is loaded before it is asked for: a node imports this package, too.
"""

from penstock.late import loaded_late
from penstock.release import VERSION as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.client.admin.aio import Admin
    from penstock.client.consumer import Consumer
    from penstock.client.failures import ClientError
    from penstock.client.interceptors import ConsumerInterceptor, Outgoing, ProducerInterceptor
    from penstock.client.producer import (
        BatchDelivered,
        BatchFailed,
        Delivery,
        Producer,
        RecordsUndelivered,
    )
    from penstock.client.records import Delivered, OutRecord, Record, TimestampType
    from penstock.client.values import NewTopic
    from penstock.errors import KafkaError
    from penstock.model import TopicPartition

_MODULES = {
    "Admin": "penstock.client.admin.aio",
    "BatchDelivered": "penstock.client.producer",
    "BatchFailed": "penstock.client.producer",
    "ClientError": "penstock.client.failures",
    "Consumer": "penstock.client.consumer",
    "ConsumerInterceptor": "penstock.client.interceptors",
    "Delivered": "penstock.client.records",
    "Delivery": "penstock.client.producer",
    "KafkaError": "penstock.errors",
    "NewTopic": "penstock.client.values",
    "OutRecord": "penstock.client.records",
    "Outgoing": "penstock.client.interceptors",
    "Producer": "penstock.client.producer",
    "ProducerInterceptor": "penstock.client.interceptors",
    "Record": "penstock.client.records",
    "RecordsUndelivered": "penstock.client.producer",
    "TimestampType": "penstock.client.records",
    "TopicPartition": "penstock.model",
}

__all__ = [
    "Admin",
    "BatchDelivered",
    "BatchFailed",
    "ClientError",
    "Consumer",
    "ConsumerInterceptor",
    "Delivered",
    "Delivery",
    "KafkaError",
    "NewTopic",
    "OutRecord",
    "Outgoing",
    "Producer",
    "ProducerInterceptor",
    "Record",
    "RecordsUndelivered",
    "TimestampType",
    "TopicPartition",
    "__version__",
]

__getattr__ = loaded_late(globals(), _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
