"""Requests of a snapshot for pull offsets, by version and by how many groups are behind.

``python -m bench.pull_offsets [--groups N]``. RocketMQ 5.5.0 reports the pull offsets of all groups
in one response (43). Before it, and from 5.5.1 on, each group that is online takes a request (208):
only groups that are behind get one. It boots one real broker for each row, with one client that is
a member of every group, and writes its section of ``docs/benchmarks.md``.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bench import report
from bench.bare import exchange
from tidemark.lab.cluster import LabCluster
from tidemark.lab.large import Large
from tidemark.lab.layout import free_port_base
from tidemark.rocketmq.collector import collect
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.addresses import split_endpoint

VERSIONS = ("5.5.0", "5.5.1")
BEHIND = (1, 10, 10_000)
"""One group in so many is behind: all, a tenth, the first."""


def main() -> None:
    """Measures, prints the section and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=600)
    options = parser.parse_args()
    rows: list[list[object]] = []
    for version in VERSIONS:
        for behind in BEHIND:
            large = Large(
                topics=100, queues=4, groups=options.groups, topics_per_group=2, behind=behind
            )
            rows.append([version, *_measured(large, version)])
    text = (
        f"## Requests for pull offsets\n\n{options.groups} groups online at one broker, with 100 "
        "topics of 4 queues. In 5.5.1 the response with all commits (43) has no pull offsets, so a "
        "group that is behind takes a request of its own (208). Made by "
        "`python -m bench.pull_offsets`.\n\n"
    ) + report.table(
        ["RocketMQ", "groups behind", "requests", "of these 208", "seconds", "pull offsets known"],
        rows,
    )
    sys.stdout.write(text + "\n")
    report.write_section("pull offsets", text)


def _measured(large: Large, version: str) -> list[object]:
    with tempfile.TemporaryDirectory() as folder:
        cluster = LabCluster.up(
            Path(folder) / "lab",
            version,
            brokers=1,
            port_base=free_port_base(brokers=1),
            files=large.files(),
        )
        try:
            (broker,) = cluster.brokers
            asyncio.run(exchange(broker.address, large.sends()))
            taken = asyncio.run(_taken(large, broker.address, cluster.namesrv))
        finally:
            cluster.down(graceful=False)
    ends = {(row.topic, row.queue_id): row.max_offset for row in taken.queue_offsets}
    behind = {
        row.consumer_group
        for row in taken.consumer_offsets
        if row.consumer_offset != ends[row.topic, row.queue_id]
        and not (row.consumer_offset is None and ends[row.topic, row.queue_id] == 0)
    }
    # Besides 208: the name server; clock, 43, 21, 201, 26, 28 and 402; 203 and 202 of all.
    others = 8 + large.groups + len({row.topic for row in taken.queue_offsets})
    known = sum(row.pull_offset is not None for row in taken.consumer_offsets)
    return [
        len(behind),
        taken.requests,
        taken.requests - others,
        f"{(taken.duration_ms or 0) / 1000:.2f}",
        f"{known} of {len(taken.consumer_offsets)}",
    ]


async def _taken(large: Large, broker: str, namesrv: str) -> Snapshot:
    """A snapshot while one client is a member of all groups; the second one, which is warm."""
    host, port = split_endpoint(broker)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(large.heartbeat())
    await reader.readexactly(4)
    target = ClusterTarget(name_servers=(namesrv,), total_timeout=60, request_timeout=30)
    until = time.monotonic() + 30
    while True:
        taken = await collect(target)
        stored = sum(row.max_offset or 0 for row in taken.queue_offsets)
        if stored == large.topics * large.queues * large.messages:
            break
        if time.monotonic() > until:
            raise SystemExit(f"{stored} messages are there, not as many as were sent")
    taken = await collect(target)
    writer.close()
    if taken.status != "COMPLETE" or len(taken.clients) != large.groups:
        raise SystemExit(f"{taken.status}: {len(taken.clients)} clients, {taken.problems[:2]}")
    return taken


if __name__ == "__main__":
    main()
