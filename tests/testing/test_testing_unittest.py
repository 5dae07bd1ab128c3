"""The base class for unittest, as unittest runs it."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from penstock.testing import Cluster, ClusterTestCase, assert_records

PROGRAM = """
import asyncio, unittest
from penstock.client.admin.blocking import Admin
from penstock.testing import ClusterTestCase, OutsideCluster

SEEN = set()

class Plain(ClusterTestCase):
    cluster_settings = {"num.partitions": 3}

    def test_one(self):
        self.check()

    def test_two(self):
        self.check()

    def check(self):
        topic = self.new_topic(2)
        assert topic not in SEEN
        SEEN.add(topic)
        with Admin(bootstrap=self.cluster.bootstrap) as admin:
            assert len(admin.describe_topics([topic])[topic].partitions) == 2

class Several(ClusterTestCase):
    cluster_brokers = 2

    def test_four(self):
        if not isinstance(self.cluster, OutsideCluster):
            assert len(self.cluster.bootstrap.split(",")) == 2

class Awaited(ClusterTestCase, unittest.IsolatedAsyncioTestCase):
    async def test_three(self):
        self.check(await asyncio.to_thread(self.new_topic))

    def check(self, topic):
        assert topic.startswith("__main__.Awaited.test_three-")

import sys
assert "pytest" not in sys.modules
unittest.main()
"""


def run(**more: str) -> str:
    surroundings = {k: v for k, v in os.environ.items() if k != "PENSTOCK_TEST_BOOTSTRAP"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**surroundings, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def test_plain_and_async_cases_have_a_cluster_without_pytest() -> None:
    assert "Ran 4 tests" in run()


def test_cases_use_the_cluster_that_the_environment_names(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        assert "Ran 4 tests" in run(PENSTOCK_TEST_BOOTSTRAP=cluster.bootstrap)
        assert sorted(each.name for each in tmp_path.glob("*Plain*-delete"))


class TestUnderPytest(ClusterTestCase):
    """pytest runs such classes, too."""

    def test_a_case_has_a_cluster(self) -> None:
        assert_records(self.cluster, self.new_topic(), [])


class TestAsyncUnderPytest(ClusterTestCase, unittest.IsolatedAsyncioTestCase):
    async def test_an_async_case_has_a_cluster(self) -> None:
        assert self.cluster.bootstrap
