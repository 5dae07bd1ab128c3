"""What the tests of streams are about: orders, customers, clicks."""

from dataclasses import dataclass


@dataclass
class Order:
    customer_id: str
    amount: float


@dataclass
class Customer:
    customer_id: str
    country: str


@dataclass
class Click:
    user: str
    page: str


@dataclass
class View:
    user: str
    ad: str
