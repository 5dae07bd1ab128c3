"""How far brokers have read the metadata log, and which of them were allowed to stop: volatile."""

from penstock.controller.image import BrokerImage, Image
from penstock.wire.records.metadata import RegisterBrokerRecord


class BrokerProgress:
    """Metadata offsets of broker incarnations, as far as this controller knows them: of their
    registration, of their last heartbeat, of the begin of their controlled shutdown."""

    def __init__(self, image_offset: int) -> None:
        self._image_offset = image_offset  # all registrations in the first image are below
        self._replayed: dict[int, None] = {}  # registered again in the batch that is replayed
        self._registered: dict[int, int] = {}
        self._heartbeats: dict[int, tuple[int, int]] = {}  # epoch and offset
        self._shutdowns: dict[int, tuple[int, int]] = {}  # epoch and offset
        self._stopped: dict[int, int] = {}  # epoch

    def replay(self, record: RegisterBrokerRecord) -> None:
        self._replayed[record.broker_id] = None

    def replayed(self, end_offset: int) -> None:
        """Note the end of a batch: registrations in it are at its last offset, or before."""
        if self._replayed:
            self._registered.update(dict.fromkeys(self._replayed, end_offset - 1))
            self._replayed.clear()

    def forget_heartbeats(self) -> None:
        """Forget what brokers reported to an earlier active controller."""
        self._heartbeats.clear()
        self._shutdowns.clear()
        self._stopped.clear()

    def registered_at(self, broker_id: int) -> int:
        """Return an offset at or behind the broker's registration."""
        return self._registered.get(broker_id, self._image_offset)

    def report(self, broker: BrokerImage, metadata_offset: int) -> None:
        """Note the offset that a broker has read up to."""
        self._heartbeats[broker.broker_id] = (broker.epoch, metadata_offset)

    def begin_shutdown(self, broker: BrokerImage, offset: int) -> None:
        """Note the end of the records that begin a controlled shutdown; a later call changes
        nothing."""
        if self._shutdowns.get(broker.broker_id, (-1, -1))[0] != broker.epoch:
            self._shutdowns[broker.broker_id] = (broker.epoch, offset)

    def end_shutdown(self, broker_id: int) -> None:
        self._shutdowns.pop(broker_id, None)

    def note_stop(self, broker: BrokerImage) -> None:
        """Note that a broker was allowed to stop: another start of it need not wait."""
        self._stopped[broker.broker_id] = broker.epoch

    def has_stopped(self, broker: BrokerImage) -> bool:
        return self._stopped.get(broker.broker_id) == broker.epoch

    def shutdown_offset(self, broker: BrokerImage) -> int | None:
        """Return the offset that all active brokers have to read before this one may stop, None if
        it is not in controlled shutdown."""
        epoch, offset = self._shutdowns.get(broker.broker_id, (-1, -1))
        known = epoch == broker.epoch and broker.in_controlled_shutdown and not broker.fenced
        return offset if known else None

    def passed_by_all(self, image: Image, offset: int) -> bool:
        """Return whether every active broker has read the metadata log up to the offset."""
        for broker in image.brokers.values():
            if broker.fenced or self.shutdown_offset(broker) is not None:
                continue
            epoch, reported = self._heartbeats.get(broker.broker_id, (-1, -1))
            if epoch != broker.epoch or reported < offset:
                return False
        return True
