"""`tidemark why`: what the consume threads of a group do now, and the message each queue is at."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.alerting.recorded_actions import record_diagnosis
from tidemark.cli.invocation import CommandError, NamesrvOption, invocation, me
from tidemark.cli.output import Format, duration, echo, to_json
from tidemark.cli.snapshot_command import one_cluster, targeted_snapshot
from tidemark.live.diagnosis import (
    LOOKUP_WORDS,
    STACK_WORDS,
    ClientStacks,
    Diagnosis,
    FirstMessage,
    Wish,
    diagnose,
)
from tidemark.rocketmq.admin.stored_messages import Message
from tidemark.rocketmq.stacks import Stack

app = typer.Typer()


@app.command("why")
def why(
    group: Annotated[str, typer.Argument(help="The consumer group.", show_default=False)],
    topic: Annotated[str, typer.Option(help="One of its topics; all unless given.")] = "",
    frames: Annotated[
        bool, typer.Option("--frames", help="Show whole stacks, not only the group's own code.")
    ] = False,
    namesrv: NamesrvOption = "",
    format: Format = Format.table,
) -> None:
    """Show why a group does not get further: stacks of its threads, and the messages it is at.

    Each Java member reads the stacks of its threads, which stops them for a moment. The messages
    are looked up where message_lookup is on, without their bodies. The home records who wants it.
    """
    cluster = one_cluster(invocation().home, namesrv)
    target, snapshot = targeted_snapshot(namesrv, counters=False)
    known = {row.consumer_group for row in (*snapshot.consumer_offsets, *snapshot.clients)}
    if group not in known:
        raise CommandError(f"{snapshot.cluster}: no group {group!r}: tidemark lag lists them")
    wish = Wish(
        consumer_group=group,
        topic=topic or None,
        client_reports=cluster.client_reports,
        message_lookup=cluster.looks_up_messages(),
    )
    diagnosis = diagnose(target, snapshot, wish)
    if invocation().had_history:
        record_diagnosis(
            invocation().shared,
            me(),
            datetime.now(UTC),
            cluster=snapshot.cluster,
            consumer_group=group,
            topic=wish.topic,
        )
    if format is Format.json:
        typer.echo(to_json(asdict(diagnosis)))
        return
    echo("\n".join(lines(diagnosis, frames)))


def lines(diagnosis: Diagnosis, frames: bool) -> Iterator[str]:
    """Yield the lines of a diagnosis, with whole stacks where `frames` is true."""
    of = f" on {diagnosis.topic}" if diagnosis.topic else ""
    yield f"{diagnosis.consumer_group}{of}  {diagnosis.diagnosed_at:%Y-%m-%d %H:%M:%S} UTC"
    yield ""
    yield "Consume threads"
    clients, messages = diagnosis.clients or (), diagnosis.messages or ()
    for client in clients:
        yield from _client_lines(client, frames)
    if not clients:
        yield "  unknown" if diagnosis.problems else "  no member is online"
    if diagnosis.clients_left_out:
        yield f"  {diagnosis.clients_left_out} more members were not requested"
    yield ""
    yield "First unconsumed messages"
    for item in messages:
        yield from _message_lines(item, diagnosis)
    if not messages:
        yield "  no unconsumed message is known"
    if diagnosis.queues_left_out:
        yield f"  {diagnosis.queues_left_out} more queues have unconsumed messages"
    for problem in diagnosis.problems:
        yield f"unknown: {problem}"


def _client_lines(client: ClientStacks, frames: bool) -> Iterator[str]:
    kind = " ".join(word for word in (client.language, client.version) if word)
    name = f"  {client.client_id} ({kind})" if kind else f"  {client.client_id}"
    if client.stacks is None:
        why = f": {client.reason}" if client.reason else ""
        yield f"{name}: {STACK_WORDS[client.outcome]}{why}"
        return
    yield name
    for stack in client.stacks.stacks:
        yield f"    {_of_threads(stack, client.stacks.threads)}"
        if frames and not stack.is_idle:
            yield from (f"      at {frame}" for frame in stack.frames)
            if stack.frames_left_out:
                yield f"      {stack.frames_left_out} more"
    if client.stacks.threads_left_out:
        yield f"    {client.stacks.threads_left_out} threads with other stacks"


def _of_threads(stack: Stack, threads: int) -> str:
    of = f"{stack.threads} of {threads} threads"
    if stack.is_idle:
        return f"{of} wait for messages"
    path = " ← ".join(stack.code or stack.frames[:3]) or "no frame"
    return f"{of} {stack.state}: {path}"


def _message_lines(item: FirstMessage, diagnosis: Diagnosis) -> Iterator[str]:
    at = "" if item.queue_offset is None else f" offset {item.queue_offset}"
    owner = f", owner {', '.join(item.owners) or 'nobody'}" if item.owners is not None else ""
    where = f"  {item.topic} {item.broker} / {item.queue_id}{at}{owner}"
    if item.message is None:
        why = f": {item.reason}" if item.reason else ""
        yield f"{where}: {LOOKUP_WORDS[item.outcome]}{why}"
        return
    yield where
    yield f"    {_described(item.message, diagnosis)}"


def _described(message: Message, diagnosis: Diagnosis) -> str:
    parts = [f"id {message.msg_id or 'unknown'}"]
    parts += [f"keys {message.keys}"] if message.keys else []
    parts += [f"tag {message.tags}"] if message.tags else []
    parts += [f"first stored in {message.origin_topic}"] if message.origin_topic else []
    times = message.reconsume_times
    parts += [f"handed back {times} {'time' if times == 1 else 'times'}"]
    parts += [f"from {message.born_host}"]
    if message.stored_at:
        age = diagnosis.diagnosed_at - message.stored_at
        milliseconds = max(0, int(age.total_seconds() * 1000))
        parts.append(f"stored {message.stored_at:%Y-%m-%d %H:%M:%S} ({duration(milliseconds)} ago)")
    return ", ".join(parts)
