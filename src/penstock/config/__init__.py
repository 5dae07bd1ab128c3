"""Configuration: one table of typed keys, and typed views of the settings.

Pure: texts come in (files, environment, command line, metadata records), values come out.
"""

from penstock.config.broker import BrokerConfig, ConfigSource, Setting, Synonym
from penstock.config.check import (
    check_broker,
    check_dynamic,
    validate_broker_changes,
    validate_broker_config,
    validate_client_metrics,
    validate_group_default,
    validate_group_overrides,
    validate_topic_config,
    validate_topic_overrides,
)
from penstock.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from penstock.config.group import GroupConfig
from penstock.config.key import Effect, Key, Mode, Value, ValueType
from penstock.config.listeners import Address, ListenerAddress, VoterAddress
from penstock.config.load import ConfigRejected, ConfigText, Loaded, load
from penstock.config.table import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from penstock.config.topic import TopicConfig, topic_config

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "Address",
    "BrokerConfig",
    "ConfigRejected",
    "ConfigSource",
    "ConfigText",
    "Described",
    "Effect",
    "GroupConfig",
    "Key",
    "ListenerAddress",
    "Loaded",
    "Mode",
    "Setting",
    "Synonym",
    "TopicConfig",
    "Value",
    "ValueType",
    "VoterAddress",
    "check_broker",
    "check_dynamic",
    "describe_broker",
    "describe_client_metrics",
    "describe_cluster_default",
    "describe_group",
    "describe_topic",
    "load",
    "topic_config",
    "validate_broker_changes",
    "validate_broker_config",
    "validate_client_metrics",
    "validate_group_default",
    "validate_group_overrides",
    "validate_topic_config",
    "validate_topic_overrides",
]
