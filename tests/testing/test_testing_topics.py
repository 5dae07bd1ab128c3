"""`create_topic` of a cluster: a request that was sent twice, and a topic that is there already."""

from collections.abc import Sequence

import pytest

from penstock.client.admin.blocking import Admin
from penstock.client.values import CreatedTopic, NewTopic
from penstock.errors import KafkaError, TopicAlreadyExists
from penstock.testing import Cluster


def test_a_topic_is_created_although_its_request_was_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create_once = Admin.create_topics

    def create_twice(
        admin: Admin, topics: Sequence[NewTopic]
    ) -> dict[str, CreatedTopic | KafkaError]:
        create_once(admin, topics)
        return create_once(admin, topics)

    with Cluster() as cluster:
        monkeypatch.setattr(Admin, "create_topics", create_twice)
        cluster.create_topic("orders")


def test_a_topic_that_is_there_already_is_named() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with pytest.raises(TopicAlreadyExists, match="orders"):
            cluster.create_topic("orders")
