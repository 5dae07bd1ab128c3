"""The broker as the coordinators see it."""

from typing import Protocol

from penstock.broker.access import AccessControl
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.sliced_work import SlicedWork
from penstock.broker.transactions.broker_view import TransactionsBroker


class CoordinatorsBroker(TransactionsBroker, Protocol):
    access: AccessControl
    replicas: Replicas
    sliced_work: SlicedWork
