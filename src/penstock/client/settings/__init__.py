"""Client settings under Kafka's own names.

Every key of Kafka's producer, consumer and admin client is in one table (table.py) with its
handling: passed on to librdkafka, translated for it, done by the client itself, without effect, or
rejected with the next step. librdkafka's own names are taken as well. Unknown keys are rejected.
"""

from penstock.client.settings.admin import admin_settings
from penstock.client.settings.consumer import consumer_settings
from penstock.client.settings.producer import producer_settings
from penstock.client.settings.values import (
    AdminSettings,
    ConsumerSettings,
    OffsetReset,
    ProducerSettings,
    SettingRefused,
    SettingValue,
)

__all__ = [
    "AdminSettings",
    "ConsumerSettings",
    "OffsetReset",
    "ProducerSettings",
    "SettingRefused",
    "SettingValue",
    "admin_settings",
    "consumer_settings",
    "producer_settings",
]
