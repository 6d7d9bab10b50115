"""Cost of a snapshot of a large cluster, against `mqadmin` and a bare loop, in the same run.

``make bench-collect`` or ``python -m bench.collect [--rounds N] [--version V] [--times N]
[--exporter CHECKOUT]``, a checkout of Apache rocketmq-exporter that was built. It boots two real
brokers that hold `tidemark.lab.large.Large`, measures in turns, because machines drift, and writes
its section of ``docs/benchmarks.md``. Every measured snapshot is compared with what was put into
the brokers. Distance is a proxy before them; memory is measured by `bench.memory`.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from bench import delayed, exporter, report
from bench.bare import exchange
from bench.tick import mqadmin
from tidemark.lab.cluster import LabCluster
from tidemark.lab.large import Large
from tidemark.lab.layout import free_port_base
from tidemark.lake.landing import land
from tidemark.rocketmq.admin import responses
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.names import retry_topic
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.codes import RequestCode
from tidemark.rocketmq.wire.frame import Frame, decode_frame, encode_request
from tidemark.settings.home import Home

ROUND_TRIP = 0.001
"""Seconds to a broker that is not on the same machine."""


@dataclass
class Cost:
    """Seconds of each round: on the clock and of the processor."""

    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def measure(self, work: Callable[[], object]) -> None:
        """Do it once in this process and keep its times."""
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.walls.append(time.perf_counter() - wall)
        self.cpus.append(time.process_time() - cpu)

    def run(self, command: list[str]) -> None:
        """The same for a process of its own."""
        wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.walls.append(time.perf_counter() - wall)
        self.cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    """Measures, prints the section and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--version", default="5.3.3")
    parser.add_argument("--times", type=int, default=1, help="so many times the size")
    parser.add_argument("--exporter", type=exporter.built, help="a built checkout of it")
    options = parser.parse_args()
    large = Large(topics=400 * options.times, groups=300 * options.times)
    text = "\n\n".join(
        [
            _title(large, options.version, options.times),
            _real(large, options),
            _without_brokers(),
        ]
    )
    sys.stdout.write(text + "\n")
    report.write_section(f"collect {options.times}", text)


def _title(large: Large, version: str, times: int) -> str:
    return (
        f"## One snapshot of a large cluster{'' if times == 1 else f', times {times}'}\n\n"
        f"RocketMQ {version}, two masters, each with {large.topics} topics of {large.queues} "
        f"queues and {large.groups} groups on {large.topics_per_group} topics each. Brokers and "
        f"collectors on one machine ({report.machine()}), in turns; seconds, median (least to "
        "most). "
        "Made by `make bench-collect`."
    )


def _real(large: Large, options: argparse.Namespace) -> str:
    """The rounds on real brokers."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = LabCluster.up(
            Path(folder) / "lab",
            options.version,
            port_base=free_port_base(),
            files=large.files(),
        )
        try:
            masters = [broker.address for broker in cluster.brokers]
            for address in masters:
                sent = asyncio.run(exchange(address, large.sends()))
                failed = [it.remark for it in map(_frame, sent) if it.code != 0]
                if failed:
                    raise SystemExit(f"{len(failed)} messages not stored, such as: {failed[0]}")
            ours, text = _rounds(large, cluster.namesrv, masters, Path(folder), options.rounds)
            theirs = _peers(options, cluster.namesrv, Path(folder))
            return f"{report.table(['', 'wall', 'CPU', 'requests'], ours + theirs)}\n\n{text}"
        finally:
            cluster.down(graceful=False)


def _peers(options: argparse.Namespace, namesrv: str, folder: Path) -> list[list[object]]:
    """Return the times of `mqadmin` and the exporter on the same brokers, after our rounds."""
    mqadmins, exporters = Cost(), Cost()
    for _ in range(3):
        mqadmins.run(mqadmin(options.version, namesrv))
    rows: list[list[object]] = [["`mqadmin consumerProgress`", *_cells(mqadmins), ""]]
    if options.exporter:
        for wall, cpu in exporter.cycles(options.exporter, namesrv, folder, 3):
            exporters.walls.append(wall)
            exporters.cpus.append(cpu)
        rows.append(["Apache rocketmq-exporter, a cycle", *_cells(exporters), ""])
    return rows


def _rounds(
    large: Large, namesrv: str, masters: list[str], folder: Path, rounds: int
) -> tuple[list[list[object]], str]:
    """Rows of the table for what we and the bare loop took, and the text about them."""
    home, target = (
        Home.of(folder / "home"),
        ClusterTarget(name_servers=(namesrv,), total_timeout=60),
    )
    bare, snapshots, landings, far = Cost(), Cost(), Cost(), Cost()
    taken: list[Snapshot] = []
    received: list[list[bytes]] = []
    landed: list[Path] = []
    _wait_until_stored(large, target)
    distant: dict[str, str] = dict(zip(("broker-a", "broker-b"), masters, strict=True))
    with delayed.serve(distant, ROUND_TRIP) as listed:
        for _ in range(rounds + 1):
            bare.measure(lambda: received.append(asyncio.run(_request_all(masters, large))))
            snapshots.measure(lambda: taken.append(collect_snapshot(target)))
            landings.measure(lambda: landed.append(land(home, taken[-1])))
            _require_right(taken[-1], landed[-1], large)
            at = ClusterTarget(name_servers=(listed,), total_timeout=60)
            far.measure(lambda at=at: landed.append(land(home, collect_snapshot(at))))
    for cost in (bare, snapshots, landings, far):  # the first round imports and warms up
        del cost.walls[0], cost.cpus[0]
    ours = Cost(_sums(snapshots.walls, landings.walls), _sums(snapshots.cpus, landings.cpus))
    ratios = [mine / floor for mine, floor in zip(ours.walls, bare.walls, strict=True)]
    snapshot, requests = taken[-1], len(received[-1])
    rows: list[list[object]] = [
        ["bare loop, responses not parsed", *_cells(bare), requests],
        ["Tidemark, read and typed", *_cells(snapshots), snapshot.requests],
        ["Tidemark, landed as Parquet too", *_cells(ours), snapshot.requests],
        ["the same with 1 ms of round trip", *_cells(far), snapshot.requests],
    ]
    return rows, (
        f"Tidemark over the bare loop, round by round: {report.spread(ratios, '.1f')}. "
        f"{len(snapshot.consumer_offsets)} rows of progress and {len(snapshot.queue_offsets)} "
        "queues, each as it was put into the brokers, "
        f"{snapshot.bytes / 1e6:.1f} MB on the wire.\n\n" + _decoding(received[-1])
    )


def _sums(first: list[float], second: list[float]) -> list[float]:
    return [one + other for one, other in zip(first, second, strict=True)]


def _cells(cost: Cost) -> list[str]:
    return [report.spread(cost.walls), report.spread(cost.cpus)]


async def _request_all(masters: list[str], large: Large) -> list[bytes]:
    """The requests of one snapshot; the responses are not parsed."""
    received = await asyncio.gather(*(exchange(address, _requests(large)) for address in masters))
    return [response for of_one_broker in received for response in of_one_broker]


def _requests(large: Large) -> list[bytes]:
    whole = (
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    )
    requested: list[tuple[int, dict[str, str]]] = [(code, {}) for code in whole]
    for group in large.group_names:
        requested.append((RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}))
        requested.append((RequestCode.GET_TOPIC_STATS_INFO, {"topic": retry_topic(group)}))
    requested += [
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}) for topic in large.topic_names
    ]
    return [encode_request(code, opaque, fields) for opaque, (code, fields) in enumerate(requested)]


def _frame(response: bytes) -> Frame:
    return decode_frame(response[4:])


def _wait_until_stored(large: Large, target: ClusterTarget) -> None:
    """A broker reports a message when it is dispatched to its queue, a moment after storing it."""
    until = time.monotonic() + 30
    while True:
        rows = collect_snapshot(target).queue_offsets
        total = sum(row.max_offset or 0 for row in rows)
        if total == 2 * large.topics * large.queues * large.messages:
            return
        if time.monotonic() > until:
            raise SystemExit(f"{total} messages are there, not as many as were sent")
        time.sleep(0.2)


def _require_right(snapshot: Snapshot, path: Path, large: Large) -> None:
    """Compare the landed rows with the contents that the brokers loaded."""
    expected = {
        (broker, group, topic, queue_id, offset)
        for broker in ("broker-a", "broker-b")
        for topic, group, offsets in large.progress()
        for queue_id, offset in offsets.items()
    }
    names = ["broker", "consumer_group", "topic", "queue_id", "consumer_offset"]
    landed = pq.ParquetFile(path / "consumer_offsets.parquet").read(names).to_pydict()
    entries = list(zip(*(landed[name] for name in names), strict=True))
    if snapshot.status != "COMPLETE" or len(entries) != len(expected) or set(entries) != expected:
        raise SystemExit(f"a wrong snapshot: {snapshot.status} {snapshot.problems[:3]}")


def _decoding(received: list[bytes]) -> str:
    """How fast the two bodies that make up a snapshot are read into typed values."""
    bodies = [_frame(response).body for response in received]
    offsets = max((body for body in bodies if b'"offsetTable"' in body), key=len)
    stats = [body for body in bodies if b'"maxOffset"' in body and b'"large_0001"' in body][:1]
    cases: list[tuple[str, bytes, Callable[[bytes], object]]] = [
        ("43, progress of all groups", offsets, responses.decode_consumer_offsets),
        (
            "202, one topic",
            stats[0],
            lambda body: responses.decode_topic_stats(body, "large_0001"),
        ),
    ]
    rows = [[name, len(body), f"{_speed(read, body):.0f}"] for name, body, read in cases]
    return report.table(["body, read into typed values", "bytes", "MB/s"], rows)


def _speed(read: Callable[[bytes], object], body: bytes) -> float:
    """Megabytes a second of processor time, the best of several turns."""
    turns = max(1, 300_000 // len(body))
    best = float("inf")
    for _ in range(10):
        started = time.process_time()
        for _ in range(turns):
            read(body)
        best = min(best, (time.process_time() - started) / turns)
    return len(body) / best / 1e6


def _without_brokers() -> str:
    """Memory of a process that collects and lands."""
    command = [sys.executable, "-m", "bench.memory"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    before, after, rows = done.stdout.split()
    return (
        f"Against a stand-in for brokers too large to boot: {int(rows):,} rows of "
        f"progress, collected and landed three times, took a process of {before} MB to {after} MB."
    )


if __name__ == "__main__":
    main()
