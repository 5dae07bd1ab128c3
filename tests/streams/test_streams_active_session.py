"""The Spark session that is active before a test driver runs is active after it."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from shop import Customer, Order

from penstock.spark import session
from penstock.streams import Streams, json_schema

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def active() -> Iterator[SparkSession]:
    """An active session that is not the first one of the process."""
    mine = session("tests").newSession()
    mine.createDataFrame([(1,)], "number int")  # which makes the session active
    yield mine
    session("tests").createDataFrame([(1,)], "number int")


def assert_active(spark: SparkSession) -> None:
    assert SparkSession.getActiveSession() is spark
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    java = SparkSession._get_j_spark_session_class(jvm).getActiveSession()
    assert java.get().equals(spark._jsparkSession)


def orders(app: Streams) -> Any:
    return app.stream("orders", value=json_schema(Order))


def test_a_stateless_topology_leaves_the_active_session(active: SparkSession) -> None:
    app = Streams("shop")
    orders(app).filter(lambda order: order.amount > 1).to("large")
    with app.test() as test:
        test.send("orders", Order("c1", 2.0))
        assert len(test.values("large")) == 1
        assert_active(active)


def test_a_global_table_leaves_the_active_session(active: SparkSession) -> None:
    app = Streams("shop")
    customers = app.global_table("customers", value=json_schema(Customer))
    orders(app).left_join(customers, on="customer_id").to("joined")
    with app.test() as test:
        test.send("orders", Order("c1", 2.0))
        assert len(test.values("joined")) == 1
        assert_active(active)


def test_a_stateful_topology_leaves_the_active_session(active: SparkSession) -> None:
    app = Streams("shop")
    orders(app).group_by("customer_id").count().to("counts")
    with app.test() as test:
        test.send("orders", Order("c1", 2.0))
        assert len(test.values("counts")) == 1
        assert_active(active)
