"""Ticks while many browsers poll the board, compared with ticks without pollers.

``python -m bench.pollers [--home FOLDER] [--days 30] [--pollers 20] [--pairs 10]``. The home has a
made-up history (`bench.made_up`) of one cluster, and a minute of another (`bench.past`) for each
tick. Ticks with pollers and without follow each other in turns, since machines drift.
"""

import argparse
import random
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from bench import report
from bench.costs import ROOT, Cost, Side
from bench.made_up import CLUSTER, MadeUp
from bench.pages import add_history_options, fetched, history, served
from bench.soak import print_line
from tidemark.lake.clocks import HOUR

POLL_SECONDS = 10.0
WARM_TICKS = 6
SETTLE_SECONDS = 10.0
"""Seconds for which pollers poll before a tick begins."""


def main() -> None:
    """Tick in turns, print each pair, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_history_options(parser)
    parser.add_argument("--pollers", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    # A tick of minutes that the other cluster has behind it would write these again.
    with history(options, ago=HOUR) as (home, made_up):
        start = made_up.end + timedelta(minutes=1)
        side = Side(checkout=ROOT, home=home.path, start=start, groups=250)
        try:
            with served(home) as (address, _, _):
                pairs, pages = _pairs(side, address, made_up, options.pollers, options.pairs)
        finally:
            side.tidemark("engine", "down")
    text = _section(pairs, pages, made_up, options.days, options.pollers)
    print_line(text)
    report.write_section("pollers", text)


def _pairs(
    side: Side, address: str, made_up: MadeUp, pollers: int, count: int
) -> tuple[list[tuple[Cost, Cost]], list[float]]:
    """Return the costs of ticks without and with pollers, and the times of pages."""
    side.tidemark("engine", "up")
    group = f"/group?cluster={CLUSTER}&group={made_up.name(0)}&topic={made_up.topic(0)}"
    pages: list[float] = []
    pairs = []
    for number in range(WARM_TICKS):
        side.put(number, number + 1)
        side.tidemark("tick", "--no-collect")
    for pair in range(count):
        costs: dict[bool, Cost] = {}
        for place, polled in enumerate(random.sample((False, True), 2)):
            minute = WARM_TICKS + 2 * pair + place
            side.put(minute, minute + 1)
            with _polling([address + "/", address + group], pollers if polled else 0, pages):
                time.sleep(SETTLE_SECONDS)
                costs[polled] = side.tidemark("tick", "--no-collect")
        pairs.append((costs[False], costs[True]))
        print_line(f"{pair + 1}: {costs[False]}, with pollers {costs[True]}")
    return pairs, pages


@contextmanager
def _polling(pages: Sequence[str], pollers: int, seconds: list[float]) -> Iterator[None]:
    """Let pollers fetch a page each, spread over the interval, until the context closes."""
    ended = threading.Event()

    def poll(number: int) -> None:
        wait = POLL_SECONDS * number / pollers
        while not ended.wait(wait):
            started = time.monotonic()
            fetched(pages[number % len(pages)])
            seconds.append(time.monotonic() - started)
            wait = max(0.0, POLL_SECONDS - seconds[-1])

    threads = [threading.Thread(target=poll, args=(number,)) for number in range(pollers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _section(
    pairs: Sequence[tuple[Cost, Cost]],
    pages: Sequence[float],
    made_up: MadeUp,
    days: float,
    pollers: int,
) -> str:
    rows = [
        [
            name,
            report.spread([getattr(without, unit) for without, _ in pairs], ".1f"),
            report.spread([getattr(polled, unit) for _, polled in pairs], ".1f"),
            report.spread(
                [getattr(polled, unit) / getattr(without, unit) for without, polled in pairs], ".2f"
            ),
        ]
        for name, unit in (("clock, s", "wall"), ("processor, s", "cpu"))
    ]
    quantile = statistics.quantiles(pages, n=20)[-1]
    return (
        f"## Ticks while {pollers} browsers poll\n\n"
        f"A tick of {made_up.group_queues:,} group queues in a home with {days:g} days of history, "
        f"alone and while {pollers} pollers fetch the overview or a group's page every "
        f"{POLL_SECONDS:.0f} s; {len(pairs)} pairs in random order, median (least to most); "
        f"{report.machine()}. The processor time is that of the tick and the engine, not of the "
        f"board. Made by `python -m bench.pollers`.\n\n"
        f"{report.table(['a tick', 'alone', 'with pollers', 'ratio, pair by pair'], rows)}\n\n"
        f"{len(pages)} pages were fetched: median {statistics.median(pages):.2f} s, 95 % within "
        f"{quantile:.2f} s."
    )


if __name__ == "__main__":
    main()
