"""Coverage-guided fuzzing of all code that reads bytes from the network.

``python -m bench.fuzz parser|responses|frame [--seconds N]``, with a Python that has atheris, best
one of its own: ``python3 -m venv fuzz && fuzz/bin/pip install atheris``; nothing else is needed. It
starts from the recorded responses of the tests and ends with a traceback at the first finding.

* ``parser``: the fast path and the tolerant parser read the same, or refuse alike;
* ``responses``: every decoder gives typed values or one of the errors it may;
* ``frame``: bytes in any pieces give the same frames or the same refusal.
"""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemark.rocketmq.admin import responses

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
LARGEST = 4096


def main() -> None:
    """Fuzzes one target for so many seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=1200)
    options = parser.parse_args()
    try:
        # No dependency of the project, so nothing is known of it to check against.
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        raise SystemExit("no atheris here: pip install atheris, into a venv of its own") from None
    make, seeds = TARGETS[options.target]
    with atheris.instrument_imports(include=["rocketmq"]):
        target = make()
    with tempfile.TemporaryDirectory() as corpus:
        for number, path in enumerate(sorted(FIXTURES.glob(f"rocketmq-*/{seeds}"))):
            seed = path.read_bytes()
            if len(seed) <= LARGEST:
                Path(corpus, str(number)).write_bytes(seed)
        limits = [f"-max_total_time={options.seconds}", f"-max_len={LARGEST}", "-timeout=10"]
        atheris.Setup([sys.argv[0], *limits, "-rss_limit_mb=1024", corpus], target)
        atheris.Fuzz()


def parser_target() -> Callable[[bytes], None]:
    """Both ways to read a body give the same."""
    from tidemark.rocketmq.wire import fastjson

    def outcome(read: Callable[[bytes], object], body: bytes) -> object:
        try:
            return repr(read(body))
        except fastjson.FastjsonError as error:
            return error.position, error.reason

    def one_input(body: bytes) -> None:
        expected = outcome(lambda it: fastjson.Parser(it).document(), body)
        if outcome(fastjson.loads, body) != expected:
            raise AssertionError(f"read otherwise than {expected!r:.200}")

    return one_input


def responses_target() -> Callable[[bytes], None]:
    """Every decoder gives values that a table can hold, or an error it is known for."""
    from tidemark.rocketmq.admin import (
        broker_reports,
        client_responses,
        deep_requests,
        pop,
    )

    decoders: list[Callable[[bytes], object]] = [
        read
        for room in (responses, broker_reports, client_responses, deep_requests, pop)
        for name, read in vars(room).items()
        if name.startswith("decode_") and read is not responses.decode_topic_stats
    ]
    decoders.append(lambda body: responses.decode_topic_stats(body, "lab_orders"))

    def one_input(body: bytes) -> None:
        for decode in decoders:
            try:
                text = decode(body)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            require_holdable(text)

    return one_input


def require_holdable(value: object) -> None:
    """Check that a value, or what is in it, fits into a column.

    Raises:
        AssertionError: it does not.
    """
    if isinstance(value, int):
        assert -(2**63) <= value < 2**63, value
    elif isinstance(value, dict):
        for key, item in value.items():
            require_holdable(key)
            require_holdable(item)
    elif isinstance(value, list | tuple):
        for item in value:
            require_holdable(item)
    elif hasattr(value, "__slots__") and not isinstance(value, str | bytes | float | datetime):
        for name in getattr(value, "__slots__", ()):
            require_holdable(getattr(value, name))
    else:
        assert value is None or isinstance(value, str | float | datetime), type(value)


def frame_target() -> Callable[[bytes], None]:
    """A stream gives the same frames however it is cut; only `FrameError` refuses it."""
    from tidemark.rocketmq.wire.frame import Frame, FrameError, take_frames

    def frames(stream: bytes, step: int) -> tuple[list[Frame], bool]:
        buffer, entries = bytearray(), []
        try:
            for at in range(0, len(stream), step):
                buffer += stream[at : at + step]
                entries += take_frames(buffer)
        except FrameError as error:
            assert "\n" not in str(error)
            return entries, True
        return entries, False

    def one_input(stream: bytes) -> None:
        header_type, rest = stream[:1], stream[1:]
        framed = (4 + len(rest)).to_bytes(4, "big") + bytes([header_type == b"\1"])
        framed += len(rest).to_bytes(3, "big") + rest
        for bytes_read in (stream, framed, framed + stream):
            bit_by_bit, refused = frames(bytes_read, 7)
            whole, refused_whole = frames(bytes_read, len(bytes_read) + 1)
            # A chunk with a broken frame yields none of the good frames before that frame.
            assert refused == refused_whole
            assert whole == bit_by_bit[: len(whole)] and (refused or len(whole) == len(bit_by_bit))

    return one_input


TARGETS = {
    "parser": (parser_target, "*.body"),
    "responses": (responses_target, "*.body"),
    "frame": (frame_target, "*.hdr"),
}
"""The function that makes a target, and its first files, by name."""


if __name__ == "__main__":
    main()
