"""Stacks of consume threads, from texts of real clients and from texts that hostile ones make."""

import pytest

from tests.support.recorded import FIXTURES
from tidemark.rocketmq.admin.client_responses import LARGEST_WITH_STACKS, decode_stacks
from tidemark.rocketmq.stacks import (
    LONGEST_FRAME,
    MOST_CODE,
    MOST_FRAMES,
    MOST_STACKS,
    MOST_THREADS,
    consume_stacks,
)
from tidemark.rocketmq.wire.fastjson import loads

BLOCKS = "Groups.blockForever(Groups.java:302)"


def thread(name, *frames, state="RUNNABLE", end="\n"):
    """A thread as `UtilAll.jstack` writes it."""
    head = f"{name:<40}TID: 17 STATE: {state}{end}"
    return head + "".join(f"{name:<40}{frame}{end}" for frame in frames) + end


@pytest.fixture(scope="module")
def recorded_body():
    return (FIXTURES / "rocketmq-5.3.3" / "307_jstack_g-stuck_m.body").read_bytes()


def test_the_stacks_of_a_client_that_blocks(recorded_body):
    report = decode_stacks(recorded_body, "g-stuck")
    assert {it.queue_id for it in report.held or () if it.topic == "lab_orders"} == set(range(8))
    stacks = report.stacks
    assert stacks and (stacks.threads, stacks.threads_left_out) == (4, 0)
    blocked, idle = stacks.stacks
    assert (blocked.threads, blocked.state, blocked.is_idle) == (1, "WAITING", False)
    assert blocked.code[:2] == (BLOCKS, "Groups.lambda$startStuck$4(Groups.java:107)")
    assert blocked.frames[0] == "jdk.internal.misc.Unsafe.park(Native Method)"
    assert blocked.frames[-1] == "Groups$$Lambda$155.consumeMessage(Unknown Source)"
    assert (idle.threads, idle.code, idle.is_idle) == (3, (), True)


def test_a_client_that_polls_reports_no_queues():
    assert decode_stacks(b'{"properties":{},"mqTable":{}}', "g").held is None
    threads = b'{"properties":{"PROP_THREADPOOL_CORE_SIZE":"20"},"mqTable":{}}'
    assert decode_stacks(threads, "g").held == frozenset()


def test_other_threads_of_the_process_are_left_out(recorded_body):
    text = loads(recorded_body)["jstack"]
    assert "NettyClientSelector" in text and "ConsumeMessageThread_g-hung_1" in text
    shown = str(consume_stacks(text, "g-stuck"))
    assert "g-hung" not in shown and "startHung" not in shown and "Netty" not in shown
    assert consume_stacks(text, "g").threads == 0


def test_clients_before_4_9_2_only_number_their_threads():
    text = thread("ConsumeMessageThread_3", "com.shop.Orders.handle(Orders.java:41)")
    stacks = consume_stacks(text, "any")
    assert [it.code for it in stacks.stacks] == [("com.shop.Orders.handle(Orders.java:41)",)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_long_group_and_lines_of_windows(end):
    group = "g" * 130
    name = f"ConsumeMessageThread_{group[:100]}_12"
    text = thread(name, "com.shop.Orders.handle(Orders.java:41)", state="BLOCKED", end=end)
    (stack,) = consume_stacks(text, group).stacks
    assert (stack.state, stack.code) == ("BLOCKED", ("com.shop.Orders.handle(Orders.java:41)",))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("app//com.shop.A.b(A.java:1)", "com.shop.A.b(A.java:1)"),
        ("com.shop.A.b(A.java:1)", "com.shop.A.b(A.java:1)"),
        ("my.module/com.shop.A.b(A.java:1)", "my.module/com.shop.A.b(A.java:1)"),
        ("java.base@17.0.1/java.lang.Thread.run(Thread.java)", "java.lang.Thread.run(Thread.java)"),
        ("java.base/java.lang.Thread.run(Thread.java:8)", "java.lang.Thread.run(Thread.java:8)"),
        ("app//A$$Lambda$1/0x00007fe3.go(Unknown Source)", "A$$Lambda$1.go(Unknown Source)"),
    ],
)
def test_frames_are_equal_in_every_process(written, shown):
    (stack,) = consume_stacks(thread("ConsumeMessageThread_g_1", written), "g").stacks
    assert stack.frames == (shown,)


def test_frames_end_at_the_client_of_rocketmq():
    frames = [f"com.shop.A.m{n}(A.java:{n})" for n in range(MOST_FRAMES + 5)]
    frames.append("org.apache.rocketmq.client.impl.consumer.ConsumeRequest.run(X.java:1)")
    text = thread("ConsumeMessageThread_g_1", *frames, "java.lang.Thread.run(Thread.java:8)")
    (stack,) = consume_stacks(text, "g").stacks
    assert stack.frames == tuple(frames[:MOST_FRAMES]) and stack.frames_left_out == 5
    assert stack.code == tuple(frames[:MOST_CODE])


def test_a_handler_that_sends_is_named_above_the_frames_of_the_client():
    """More frames of RocketMQ lie above it than are kept of an application's code."""
    client = [f"org.apache.rocketmq.remoting.netty.A.m{n}(A.java:{n})" for n in range(MOST_CODE)]
    text = thread("ConsumeMessageThread_g_1", *client, "com.shop.Orders.handle(Orders.java:41)")
    (stack,) = consume_stacks(text, "g").stacks
    assert stack.code == ("com.shop.Orders.handle(Orders.java:41)",)
    assert stack.frames[:MOST_CODE] == tuple(client)


def test_threads_and_stacks_are_bounded():
    text = "".join(
        thread(f"ConsumeMessageThread_g_{n}", f"com.shop.A.m(A.java:{n % 40})", "x" * 2_000)
        for n in range(MOST_THREADS + 100)
    )
    stacks = consume_stacks(text, "g")
    assert stacks.threads == MOST_THREADS and len(stacks.stacks) == MOST_STACKS
    assert stacks.threads_left_out == MOST_THREADS - sum(it.threads for it in stacks.stacks) > 0
    assert max(len(frame) for it in stacks.stacks for frame in it.frames) == LONGEST_FRAME


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000_000,
        "TID: 1 STATE: " * 700_000,
        "\n" * 10_000_000,
        thread("ConsumeMessageThread_g_1" + "y" * 10_000_000),
        thread("ConsumeMessageThread_<script>_1"),
        "TID: 1 STATE: WAITING",
        "",
    ],
    ids=["no-line", "many-heads", "empty-lines", "long-name", "other-group", "no-name", "empty"],
)
def test_a_text_without_consume_threads_has_none(text):
    assert consume_stacks(text, "g").threads == 0


def test_a_frame_is_text_whatever_it_says():
    text = thread("ConsumeMessageThread_<script>_1", "<script>alert(1)</script>\x1b[2J")
    (stack,) = consume_stacks(text, "<script>").stacks
    assert stack.code == ("<script>alert(1)</script>\x1b[2J",)


def test_a_report_that_is_too_large_is_refused_unread():
    body = b'{"jstack":"' + b"x" * LARGEST_WITH_STACKS + b'"}'
    with pytest.raises(ValueError, match="a report of 8388621 bytes"):
        decode_stacks(body, "g")


def test_stacks_that_are_no_text_are_refused():
    with pytest.raises(TypeError):
        decode_stacks(b'{"jstack":["a"]}', "g")


@pytest.mark.parametrize("body", [b"{}", b'{"jstack":null}', b'{"jstack":""}'])
def test_a_client_without_stacks(body):
    assert decode_stacks(body, "g").stacks is None
