"""A node that several processes share: who starts it, who uses it, and when it ends."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from process_ends import wait_for_end

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.testing import NodeFailed
from penstock.testing.shared_node import LINGER_VARIABLE, SharedNode, directory_of


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(LINGER_VARIABLE, "0.2")
    return tmp_path / f"penstock-shared-{os.getuid()}"


def names(place: Path) -> list[str]:
    (own,) = place.iterdir()
    return sorted(each.name for each in own.iterdir())


def test_who_comes_first_starts_it_and_others_find_it(place: Path) -> None:
    first, second = SharedNode({}), SharedNode({})
    assert first.bootstrap == second.bootstrap
    assert first.process_id == second.process_id
    with Admin(bootstrap=first.bootstrap) as admin:
        assert admin.list_topics() == []
    first.close()
    third = SharedNode({})
    assert third.process_id == first.process_id, "somebody used it all the time"
    second.close()
    third.close()
    wait_for_end(first.process_id)
    assert names(place) == ["alive", "log", "turn", "users"]


def test_it_begins_anew_after_its_end() -> None:
    first = SharedNode({})
    with Admin(bootstrap=first.bootstrap) as admin:
        admin.create_topics([NewTopic("a")])
    first.close()
    wait_for_end(first.process_id)
    second = SharedNode({})
    assert second.process_id != first.process_id
    with Admin(bootstrap=second.bootstrap) as admin:
        assert admin.list_topics() == []
    second.close()
    wait_for_end(second.process_id)


def test_one_that_was_killed_is_replaced(place: Path) -> None:
    first = SharedNode({})
    os.kill(first.process_id, signal.SIGKILL)
    wait_for_end(first.process_id)
    assert "node.json" in names(place)
    second = SharedNode({})
    assert second.process_id != first.process_id
    first.close()
    second.close()
    wait_for_end(second.process_id)


def test_it_stays_a_while_for_those_who_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LINGER_VARIABLE, "600")
    first = SharedNode({})
    first.close()
    second = SharedNode({})
    assert second.process_id == first.process_id
    os.kill(second.process_id, signal.SIGKILL)
    wait_for_end(second.process_id)
    second.close()


def test_other_settings_are_another_node() -> None:
    assert directory_of({}) != directory_of({"num.partitions": "3"})


def test_one_that_cannot_start_says_why() -> None:
    with pytest.raises(NodeFailed, match=r"num\.partitions"):
        SharedNode({"num.partitions": "many"})


def test_a_place_of_somebody_else_is_refused(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(PermissionError, match="must belong to this user"):
        SharedNode({})
