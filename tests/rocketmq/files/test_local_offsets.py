"""Broadcast clients' offset files: real ones, and damaged ones."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.rocketmq.files.conftest import close_folder
from tests.support.homes import ROOT
from tests.support.recorded import FIXTURES
from tidemark.lake.landing import land
from tidemark.rocketmq.files.local_offsets import decode_offsets, read_local_offsets
from tidemark.rocketmq.files.mapped_files import FileError
from tidemark.rocketmq.records import ConsumerOffset
from tidemark.settings.home import Home

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.fixture
def clients(tmp_path):
    folder = tmp_path / "offsets"
    shutil.copytree(FIXTURES / "stores" / "5.3.3" / "rocketmq_offsets", folder)
    return folder


def of_client(snapshot, number):
    client_id = f"127.0.0.1@g-broadcast-{number}"
    return [row for row in snapshot.consumer_offsets if row.client_id == client_id]


def file_of(clients, number):
    return clients / f"127.0.0.1@g-broadcast-{number}" / "g-broadcast" / "offsets.json"


def test_real_files(clients):
    snapshot = read_local_offsets(clients, cluster="lab")
    assert (snapshot.cluster, snapshot.source, snapshot.status) == (
        "lab",
        "local_offsets",
        "COMPLETE",
    )
    assert snapshot.problems == [] and snapshot.queue_offsets == snapshot.brokers == []
    first = ConsumerOffset(
        broker="broker-a",
        consumer_group="g-broadcast",
        topic="lab_bcast",
        queue_id=0,
        client_id="127.0.0.1@g-broadcast-0",
        consumer_offset=3276,
        offset_store="client_file",
    )
    assert of_client(snapshot, 0)[0] == first
    assert [row.queue_id for row in of_client(snapshot, 1)] == list(range(8))


def test_a_client_named_in_another_encoding_can_land(clients, tmp_path):
    """Java has the name of its host's encoding for the folder; Python reads half characters."""
    named = os.fsdecode(b"127.0.0.1@" + "中".encode("gbk"))
    (clients / "127.0.0.1@g-broadcast-0").rename(clients / named)
    (clients / named / "empty").mkdir()
    (clients / named / "empty" / "offsets.json").touch()
    snapshot = read_local_offsets(clients, cluster="lab")
    assert len(snapshot.problems) == 1
    assert "127.0.0.1@\\xd6\\xd0" in {row.client_id for row in snapshot.consumer_offsets}
    land(Home.of(tmp_path / "home"), snapshot)


def test_reads_files_of_the_real_classes(golden):
    for printed in golden.values():
        offsets = decode_offsets(printed["LocalOffset pretty"].encode())
        assert offsets and {broker for broker, _, _ in offsets} == {"broker-a"}


QUEUE = '{"brokerName":"b","queueId":1,"topic":"t"}'

TAMPERED = {
    "truncated": '{"offsetTable":{{"brokerName":"b","que',
    "no table": "{}",
    "a list": "[]",
    "negative": f'{{"offsetTable":{{{QUEUE}:-5}}}}',
    "text": f'{{"offsetTable":{{{QUEUE}:"5"}}}}',
    "a fraction": f'{{"offsetTable":{{{QUEUE}:5.5}}}}',
    "beyond 64 bits": f'{{"offsetTable":{{{QUEUE}:{2**63}}}}}',
    "true": f'{{"offsetTable":{{{QUEUE}:true}}}}',
    "key is text": '{"offsetTable":{"t":5}}',
    "key without topic": '{"offsetTable":{{"brokerName":"b","queueId":1}:5}}',
    "queue id is text": '{"offsetTable":{{"brokerName":"b","queueId":"1","topic":"t"}:5}}',
    "reference": '{"offsetTable":{"$ref":"$"}}',
    "binary": "\x00\xff",
    "empty": "",
}


@pytest.mark.parametrize("text", TAMPERED.values(), ids=TAMPERED)
def test_a_bad_file_is_reported_and_skipped(clients, text):
    path = file_of(clients, 0)
    path.write_text(text, encoding="latin-1")
    snapshot = read_local_offsets(clients, cluster="lab")
    assert snapshot.status == "PARTIAL"
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation) == (str(path), "READ offsets.json")
    assert problem.message.endswith("read offsets.json.bak instead")
    assert len(of_client(snapshot, 0)) == len(of_client(snapshot, 1)) == 8

    path.with_name("offsets.json.bak").write_text(text, encoding="latin-1")
    snapshot = read_local_offsets(clients, cluster="lab")
    assert [problem.endpoint for problem in snapshot.problems] == [str(path)]
    assert (len(of_client(snapshot, 0)), len(of_client(snapshot, 1))) == (0, 8)


@pytest.mark.parametrize("text", ["\ufeff%s", '/* "of" a\nperson */ %s // 1'])
def test_an_edited_file_is_read_as_rocketmq_reads_it(clients, text):
    """`RemotingSerializable.fromJson` of 4.9.7, 5.3.3, 5.5.0 and 5.5.1 takes all of these."""
    path = file_of(clients, 0)
    path.write_text(text % path.read_text())
    snapshot = read_local_offsets(clients, cluster="lab")
    assert (snapshot.status, snapshot.problems, len(of_client(snapshot, 0))) == ("COMPLETE", [], 8)


def test_what_looks_like_a_comment_in_a_string_stays(clients):
    path = file_of(clients, 0)
    queue = '{"brokerName":"http://b/*","queueId":1,"topic":"\\"//t*/"}'
    path.write_text(f'{{"offsetTable":{{{queue}:5}}}}')
    (row,) = of_client(read_local_offsets(clients, cluster="lab"), 0)
    assert (row.broker, row.topic, row.consumer_offset) == ("http://b/*", '"//t*/', 5)


@pytest.mark.parametrize("end", ["/*", "/*/", "/", '"', '"\\', '"/*'])
def test_what_does_not_end_is_no_json(clients, end):
    path = file_of(clients, 0)
    shutil.copy(path, path.with_name("offsets.json.bak"))
    path.write_text(path.read_text() + end)
    snapshot = read_local_offsets(clients, cluster="lab")
    (problem,) = snapshot.problems
    assert problem.message.endswith("read offsets.json.bak instead")
    assert len(of_client(snapshot, 0)) == 8


READ = """
import sys
from pathlib import Path
from tidemark.rocketmq.files.local_offsets import read_rewritten
print(read_rewritten(Path(sys.argv[1]), len)[0])
"""


@pytest.mark.parametrize("part", [r"\"", "/*", "/*x", "/", "/**"])
def test_reading_takes_work_in_proportion_to_the_size(tmp_path, part):
    """4 MB took hours: what does not end was searched for its end from each place."""
    path = tmp_path / "offsets.json"
    for begin in ('0//\n"', "0//\n"):
        path.write_text(begin + part * (4_000_000 // len(part)))
        done = subprocess.run(
            ["prlimit", "--cpu=60", sys.executable, "-c", READ, path],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_only_the_previous_content_is_left(clients):
    file_of(clients, 0).unlink()
    snapshot = read_local_offsets(clients, cluster="lab")
    assert [problem.endpoint for problem in snapshot.problems] == [str(file_of(clients, 0))]
    assert len(of_client(snapshot, 0)) == 8


def test_nothing_can_be_read(clients):
    for number in (0, 1):
        shutil.rmtree(file_of(clients, number).parent)
        file_of(clients, number).mkdir(parents=True)
    snapshot = read_local_offsets(clients, cluster="lab")
    assert (snapshot.status, len(snapshot.problems), snapshot.consumer_offsets) == ("FAILED", 2, [])


@pytest.mark.parametrize("name", ["offsets.json", "offsets.json.bak"])
def test_files_of_a_client_id_with_slashes_are_read(clients, name):
    """An instance that is named after an address makes folders of its parts."""
    inside = clients / "10.0.0.1@http:" / "mq.internal:80" / "g-broadcast"
    inside.mkdir(parents=True)
    shutil.copy(file_of(clients, 0), inside / name)
    snapshot = read_local_offsets(clients, cluster="lab")
    client_id = "10.0.0.1@http://mq.internal:80"
    own = [row for row in snapshot.consumer_offsets if row.client_id == client_id]
    assert [row.queue_id for row in own] == list(range(8))
    assert {row.consumer_group for row in own} == {"g-broadcast"}
    assert (snapshot.status, len(snapshot.problems)) == (
        ("COMPLETE", 0) if name == "offsets.json" else ("PARTIAL", 1)
    )


@pytest.mark.parametrize("place", [".", "g-broadcast"])
@pytest.mark.parametrize("name", ["offsets.json", "offsets.json.bak"])
def test_a_file_of_nobody_is_a_problem(clients, place, name):
    (clients / place).mkdir(exist_ok=True)
    shutil.copy(file_of(clients, 0), clients / place / name)
    snapshot = read_local_offsets(clients, cluster="lab")
    (problem,) = snapshot.problems
    assert problem.message.startswith("not below <client id>/<group>/")
    assert (snapshot.status, len(snapshot.consumer_offsets)) == ("PARTIAL", 16)


def test_a_link_without_end_is_a_problem(clients):
    (clients / "loop").symlink_to(clients)
    snapshot = read_local_offsets(clients, cluster="lab")
    assert any("folders: not read" in problem.message for problem in snapshot.problems)


def test_no_files(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileError, match=str(folder)):
            read_local_offsets(folder, cluster="lab")


@pytest.mark.parametrize("place", ["client", "group"])
def test_a_folder_that_cannot_be_listed_is_reported(clients, monkeypatch, place):
    """Folders of other users were left out, and the snapshot was complete without them."""
    group = file_of(clients, 0).parent
    closed = {"client": group.parent, "group": group}[place]
    close_folder(monkeypatch, closed)
    snapshot = read_local_offsets(clients, cluster="lab")
    assert [problem.line for problem in snapshot.problems] == [
        f"{closed}: READ offsets.json: Permission denied"
    ]
    assert (snapshot.status, of_client(snapshot, 0), len(of_client(snapshot, 1))) == (
        "PARTIAL",
        [],
        8,
    )


def test_a_closed_folder_of_all_clients_is_named(clients, monkeypatch):
    close_folder(monkeypatch, clients)
    with pytest.raises(FileError, match=f"{clients}: Permission denied"):
        read_local_offsets(clients, cluster="lab")
