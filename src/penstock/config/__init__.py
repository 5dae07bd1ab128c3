"""Configuration: one table of typed keys, and typed views of what was set.

Pure: texts come in (files, environment, command line, metadata records), values come out.
"""

from penstock.config.broker import BrokerConfig, Setting, Source, Synonym
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
from penstock.config.listeners import Address, Listener, Voter
from penstock.config.load import ConfigRefused, ConfigText, Loaded, load
from penstock.config.table import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from penstock.config.topic import TopicConfig, topic_config

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "Address",
    "BrokerConfig",
    "ConfigRefused",
    "ConfigText",
    "Described",
    "Effect",
    "GroupConfig",
    "Key",
    "Listener",
    "Loaded",
    "Mode",
    "Setting",
    "Source",
    "Synonym",
    "TopicConfig",
    "Value",
    "ValueType",
    "Voter",
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
