"""Periodic work of a session: commit offsets past markers, empty retry topics, warn."""

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.client.admin.aio import Admin
from penstock.client.failures import ClientError
from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.retry.topics import prepare

if TYPE_CHECKING:
    from penstock.retry.session import RetrySession

log = logging.getLogger("penstock.retry")

EVERY_S = 30.0


class Maintenance:
    """The periodic work of one session."""

    def __init__(self, session: "RetrySession", admin: Admin) -> None:
        self._session = session
        self._admin = admin
        self._separated_before: list[TopicPartition] = []
        self._deleted: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self._session.failures.sum_up()
            try:
                await self.step()
            except (KafkaError, ClientError) as error:
                log.warning("maintenance failed and is tried again: %s", error)

    async def step(self) -> None:
        await self._warn_of_separated()
        await self._session.writer.commit_markers()
        await self._delete_tried()

    async def _warn_of_separated(self) -> None:
        separated = self._session.ownership.separated
        if separated and separated == self._separated_before:
            log.warning(
                "%s waits for the partitions that belong to it: either the source has got more "
                "partitions, and the topics beside it are given as many now; or other members of "
                "the group have other ladders or another assignor",
                ", ".join(map(str, separated)),
            )
            for route in self._session.config.routes:
                await prepare(self._admin, self._session.config.wanted(route))
        self._separated_before = separated

    async def _delete_tried(self) -> None:
        """Delete handled records of retry topics; retention by age could delete waiting ones."""
        session = self._session
        steps = [
            topic_partition
            for source in session.partition_states
            for topic_partition in session.ownership.topic_partitions(source)
            if topic_partition.topic != source.topic
        ]
        if not steps:
            return
        committed = await session.consumer.committed(*steps)
        before = {
            topic_partition: at
            for topic_partition, at in committed.items()
            if at is not None and at > self._deleted.get(topic_partition, 0)
        }
        if not before:
            return
        for topic_partition, result in (await self._admin.delete_records(before)).items():
            if isinstance(result, KafkaError):
                log.warning("%s was not emptied: %s", topic_partition, result)
            else:
                self._deleted[topic_partition] = before[topic_partition]
