"""Stacks of consume threads, from the text that a Java client makes of all its threads.

`UtilAll.jstack` of RocketMQ's client writes a line of each thread, and one of each frame. Both
begin with the thread's name, padded to 40 characters. Applications choose names, so the text is not
trusted: threads, frames and characters are bounded. The result only has consume threads.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

NAME_WIDTH = 40
"""Characters to which a thread's name is padded (``%-40s`` of `UtilAll.jstack`)."""

MOST_THREADS = 2_000
"""Consume threads of a client that are read; ``consumeThreadMax`` is at most 1,000 a consumer."""

MOST_STACKS = 12
"""Different stacks of a client that are kept, those of most threads first."""

MOST_FRAMES = 24
"""Frames of a stack that are kept, the innermost first."""

MOST_CODE = 6
"""Frames of the application's own code that are kept of a stack."""

LONGEST_FRAME = 240
"""Characters of a frame that are kept."""

_THREAD = re.compile(r"TID: \d{1,19} STATE: ([A-Z_]{1,20})\r?$")

_CONSUME_THREAD = re.compile(r"ConsumeMessageThread_(?:(.*)_)?\d+", re.DOTALL)
"""The group is in the names since 4.9.2; older clients only number their threads."""

_GROUP_IN_NAME = 100
"""Most characters of a group in a thread's name (`ConsumeMessageConcurrentlyService`)."""

_MODULE = re.compile(r"(?:[\w.-]{0,80}//|(?:java|jdk)\.[\w.]{1,80}(?:@[\w.+-]{1,40})?/)")
"""Class loader and module before a class: ``app//com.shop.Orders``, ``java.base/java.lang``."""

_HIDDEN_CLASS = re.compile(r"/0x[0-9a-f]{1,16}")
"""Address of a class that a lambda became: another one in each process."""

_PLATFORM = ("java.", "javax.", "jdk.", "sun.", "com.sun.", "org.apache.rocketmq.")
"""Packages of Java and of RocketMQ, whose frames are no code of an application."""

_CLIENT = "org.apache.rocketmq.client.impl.consumer."

_IDLE = "java.util.concurrent.ThreadPoolExecutor.getTask("


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """A stack that threads of a client have in common.

    Attributes:
        threads: the threads that have it.
        state: of `java.lang.Thread.State`: ``RUNNABLE``, ``BLOCKED``, ``WAITING``, ...
        code: the innermost frames of code that is neither Java's nor RocketMQ's, at most
            `MOST_CODE`; none for threads that wait for a message.
        frames: the innermost frames, at most `MOST_FRAMES`, down to RocketMQ's own.
        frames_left_out: further frames above RocketMQ's own.
        is_idle: whether the threads have no message and wait for one.
    """

    threads: int
    state: str
    code: tuple[str, ...]
    frames: tuple[str, ...]
    frames_left_out: int
    is_idle: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumeStacks:
    """The stacks of the consume threads of a client.

    Attributes:
        threads: consume threads of the group; of a client before 4.9.2, of all groups of the
            process.
        stacks: the different stacks: those with messages first, then those of most threads.
        threads_left_out: threads of stacks beyond `MOST_STACKS`.
    """

    threads: int
    stacks: tuple[Stack, ...]
    threads_left_out: int


def consume_stacks(text: str, group: str) -> ConsumeStacks:
    """Return the stacks of the consume threads of a group from the text of all threads.

    Args:
        text: as `UtilAll.jstack` writes it, or anything else.
        group: the consumer group; a process may have members of several.
    """
    counts: Counter[Stack] = Counter()
    for number, (state, frames) in enumerate(_threads(text, group)):
        if number == MOST_THREADS:
            break
        counts[_stack(state, frames)] += 1
    ranked = sorted(counts, key=lambda it: (it.is_idle, -counts[it], it.frames))
    kept = ranked[:MOST_STACKS]
    return ConsumeStacks(
        threads=counts.total(),
        stacks=tuple(
            Stack(
                threads=counts[it],
                state=it.state,
                code=it.code,
                frames=it.frames,
                frames_left_out=it.frames_left_out,
                is_idle=it.is_idle,
            )
            for it in kept
        ),
        threads_left_out=sum(counts[it] for it in ranked[MOST_STACKS:]),
    )


def _threads(text: str, group: str) -> Iterator[tuple[str, list[str]]]:
    """Yield state and frames of each consume thread of a group."""
    prefix, state, frames = "", "", []
    for line in _lines(text):
        head = _THREAD.search(line) if len(line) <= _LONGEST_LINE else None
        if head:
            if state:
                yield state, frames
            name = line[: head.start()].rstrip()
            is_own = _consumes(name, group)
            prefix, state, frames = name.ljust(NAME_WIDTH), head[1] if is_own else "", []
        elif state and line.startswith(prefix):
            frames.append(_frame(line[len(prefix) :]))
    if state:
        yield state, frames


_LONGEST_LINE = 1_000
"""Characters of a line about a thread: its name has at most the group and some more."""


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, without a list of all of them."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start : min(end, start + _LONGEST_LINE + 1)]
        start = end + 1


def _consumes(thread: str, group: str) -> bool:
    """Return whether a name is of a consume thread of this group, or of one of any group."""
    match = _CONSUME_THREAD.fullmatch(thread)
    return bool(match) and match[1] in (None, group[:_GROUP_IN_NAME])


def _frame(text: str) -> str:
    """Return a frame without loader, module and addresses, which differ between processes."""
    whole = _HIDDEN_CLASS.sub("", text.strip()[:_LONGEST_LINE])
    module = _MODULE.match(whole)
    frame = whole[module.end() :] if module else whole
    return frame if len(frame) <= LONGEST_FRAME else frame[: LONGEST_FRAME - 1] + "…"


def _is_code(frame: str) -> bool:
    return not frame.startswith(_PLATFORM) and not frame.endswith("(Unknown Source)")


def _stack(state: str, frames: list[str]) -> Stack:
    """Return a stack as one of no thread yet, down to RocketMQ's own frames."""
    end = next((n for n, it in enumerate(frames) if it.startswith(_CLIENT)), len(frames))
    own = frames[:end]
    return Stack(
        threads=0,
        state=state,
        code=tuple(it for it in own if _is_code(it))[:MOST_CODE],
        frames=tuple(own[:MOST_FRAMES]),
        frames_left_out=max(0, end - MOST_FRAMES),
        is_idle=any(it.startswith(_IDLE) for it in own),
    )
