"""Kafka's own names for client settings: what each becomes, or why it cannot be.

Every key of Kafka's producer, consumer and admin client is in one table (table.py) with its fate:
passed on to librdkafka, translated for it, done by the client itself, without effect, or refused
with the way out. librdkafka's own names are taken as well. Unknown keys are refused.
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
