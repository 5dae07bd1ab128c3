"""What clients do that a broker does not let in: each waits, and is told why it waits in vain."""

from typing import Any, Protocol

from penstock import Consumer, Producer
from penstock import sync as blocking
from penstock.client.producer import RecordsUndelivered


class Access(Protocol):
    """How a broker is spoken to."""

    @property
    def settings(self) -> dict[str, str]: ...
    @property
    def bootstrap(self) -> str: ...


async def read_on(of: Access) -> None:
    async with Consumer(of.settings, bootstrap=of.bootstrap, group="g", topics=["t"]) as consumer:
        async for _ in consumer:
            pass


async def read_a_partition(of: Access) -> None:
    places: Any = {("t", 0): "start"}
    async with Consumer(of.settings, bootstrap=of.bootstrap, assign=places) as consumer:
        async for _ in consumer:
            pass


def read_on_blocking(of: Access) -> None:
    with blocking.Consumer(
        of.settings, bootstrap=of.bootstrap, group="g", topics=["t"]
    ) as consumer:
        for _ in consumer:
            pass


async def send(of: Access) -> None:
    async with Producer[bytes, bytes](of.settings, bootstrap=of.bootstrap) as producer:
        await producer.send("t", b"x")


async def post(of: Access) -> None:
    async with Producer[bytes, bytes](of.settings, bootstrap=of.bootstrap) as producer:
        await producer.post("t", b"x")
        try:
            await producer.flush()
        except RecordsUndelivered as failed:
            raise failed.failures[0].error from failed


async def begin_a_transaction(of: Access) -> None:
    settings = {**of.settings, "transactional.id": "t"}
    async with (
        Producer[bytes, bytes](settings, bootstrap=of.bootstrap) as producer,
        producer.transaction(),
    ):
        pass
