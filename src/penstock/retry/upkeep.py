"""What a life does now and then.

Offsets catch up with markers, topics of the ladder are emptied, and what is amiss is said.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.client.admin.aio import Admin
from penstock.client.failures import ClientError
from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.retry.topics import prepare

if TYPE_CHECKING:
    from penstock.retry.life import Life

log = logging.getLogger("penstock.retry")

EVERY_S = 30.0


class Upkeep:
    """Of one life."""

    def __init__(self, life: "Life", admin: Admin) -> None:
        self._life = life
        self._admin = admin
        self._apart_before: list[TopicPartition] = []
        self._deleted: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self._life.failures.sum_up()
            try:
                await self.step()
            except (KafkaError, ClientError) as error:
                log.warning("upkeep will be tried again: %s", error)

    async def step(self) -> None:
        await self._look_for_parted()
        await self._life.writer.catch_up()
        await self._delete_tried()

    async def _look_for_parted(self) -> None:
        apart = self._life.ownership.apart
        if apart and apart == self._apart_before:
            log.warning(
                "%s waits for the partitions that belong to it: either the source has got more "
                "partitions, and the topics beside it are given as many now; or other members of "
                "the group have other ladders or another assignor",
                ", ".join(map(str, apart)),
            )
            for route in self._life.around.routes:
                await prepare(self._admin, self._life.around.wanted(route))
        self._apart_before = apart

    async def _delete_tried(self) -> None:
        """They are kept for ever otherwise: by age one that still waits might go, too."""
        life = self._life
        steps = [
            place
            for source in life.courses
            for place in life.ownership.places(source)
            if place.topic != source.topic
        ]
        if not steps:
            return
        committed = await life.consumer.committed(*steps)
        before = {
            place: at
            for place, at in committed.items()
            if at is not None and at > self._deleted.get(place, 0)
        }
        if not before:
            return
        for place, result in (await self._admin.delete_records(before)).items():
            if isinstance(result, KafkaError):
                log.warning("%s was not emptied: %s", place, result)
            else:
                self._deleted[place] = before[place]
