"""The pace falls for a busy or slow broker and recovers afterwards."""

import asyncio
import json

import pytest

from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import BudgetError, RequestCode, ResponseError
from tidemark.rocketmq.wire.pacing import FIRST_REST, MAX_RETRIES, SLOW_SECONDS, Pace, paced

REQUEST = RequestCode.GET_BROKER_RUNTIME_INFO
BUSY = 2


def test_busy_halves_the_limit_down_to_one():
    pace = Pace(8)
    limits = []
    for second in range(1, 6):
        pace.record_busy(sent_at=second, now=second + 0.5)
        limits.append(pace.limit)
    assert limits == [4, 2, 1, 1, 1]


def test_rests_grow_and_are_not_the_same_for_everybody():
    def rests():
        pace = Pace(8)
        entries = []
        for second in range(1, 5):
            pace.record_busy(sent_at=second, now=second + 0.5)
            entries.append(pace.rests_until - second - 0.5)
        return entries

    for number, rest in enumerate(rests()):
        assert 0.5 * FIRST_REST * 2**number <= rest <= 1.5 * FIRST_REST * 2**number
    assert rests() != rests()


def test_busy_requests_under_way_count_once():
    pace = Pace(8)
    for _ in range(8):
        pace.record_busy(sent_at=1.0, now=1.5)
    assert pace.limit == 4


def test_a_round_of_fast_responses_gives_one_back():
    pace = Pace(8)
    pace.record_busy(sent_at=1.0, now=1.0)
    for number in range(4):
        assert pace.limit == 4
        pace.record_response(sent_at=2 + number, now=2.01 + number)
    assert pace.limit == 5
    for number in range(100):
        pace.record_response(sent_at=10 + number, now=10.01 + number)
    assert pace.limit == 8


def test_slow_is_slower_than_the_endpoint_was():
    pace = Pace(8)
    pace.record_response(sent_at=0, now=SLOW_SECONDS * 2)
    assert pace.limit == 8, "a far broker is not slow"
    pace.record_response(sent_at=3, now=3.01)
    pace.record_response(sent_at=4, now=4.5)
    assert pace.limit == 8, "half a second is not slow"
    pace.record_response(sent_at=5, now=5 + SLOW_SECONDS * 2)
    assert pace.limit == 4


def test_slots_follow_the_limit():
    async def main():
        pace = Pace(4)
        most = 0
        under_way = 0

        async def one():
            nonlocal most, under_way
            async with pace:
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                under_way -= 1

        async def largest():
            nonlocal most
            most = 0
            await asyncio.gather(*(one() for _ in range(20)))
            return most

        assert await largest() == 4
        pace.record_busy(sent_at=1, now=1)
        await largest()  # the slots in use were given out before
        assert await largest() == 2
        for number in range(100):
            pace.record_response(sent_at=2 + number, now=2.01 + number)
        assert await largest() == 4

    asyncio.run(main())


# Over a connection -------------------------------------------------------------------------------


def answering(codes, seen):
    """A server that answers with these codes in turn, then with SUCCESS."""

    async def behave(reader, writer):
        while True:
            total = int.from_bytes(await reader.readexactly(4), "big")
            content = await reader.readexactly(total)
            header = json.loads(content[4 : 4 + int.from_bytes(content[1:4], "big")])
            seen.append(asyncio.get_running_loop().time())
            code = codes.pop(0) if codes else 0
            text = json.dumps({"code": code, "flag": 1, "opaque": header["opaque"]}).encode()
            writer.write((4 + len(text)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text)

    return behave


def run(scripted, codes, use, **settings):
    seen = []

    async def main():
        async with scripted(answering(codes, seen)) as endpoint, RemotingClient(**settings) as it:
            return await asyncio.wait_for(use(it, endpoint), 20)

    return asyncio.run(main()), seen


def test_a_busy_broker_gets_the_request_again(scripted):
    async def use(client, endpoint):
        frame = await client.call(endpoint, REQUEST)
        return frame.code, client.requests

    pair, seen = run(scripted, [BUSY, 215], use)
    assert pair == (0, 3)
    assert seen[1] - seen[0] >= 0.5 * FIRST_REST
    assert seen[2] - seen[1] >= FIRST_REST


@pytest.mark.slow
def test_a_broker_that_stays_busy_is_a_problem(scripted):
    async def use(client, endpoint):
        with pytest.raises(ResponseError, match="SYSTEM_BUSY"):
            await client.call(endpoint, REQUEST)
        return client.requests

    item, _ = run(scripted, [BUSY] * 50, use)
    assert item == MAX_RETRIES + 1


@pytest.mark.slow
def test_retries_end_with_the_time_of_the_snapshot(scripted):
    async def use(client, endpoint):
        calls = [client.call(endpoint, REQUEST) for _ in range(20)]
        started = asyncio.get_running_loop().time()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, Exception) for error in errors)
        return asyncio.get_running_loop().time() - started

    seconds, _ = run(scripted, [BUSY] * 500, use, total_timeout=0.4, in_flight=2)
    assert seconds < 5


def test_the_budget_of_requests(scripted):
    async def use(client, endpoint):
        calls = [client.call(endpoint, REQUEST) for _ in range(8)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        errors = [error for error in results if isinstance(error, BudgetError)]
        assert "budget of 5 requests" in str(errors[0])
        return len(errors), client.requests

    pair, seen = run(scripted, [], use, max_requests=5)
    assert pair == (3, 5) and len(seen) == 5


def test_waiting_items_are_no_tasks():
    requested, tasks = [], []

    async def send(item):
        requested.append(item)
        tasks.append(len(asyncio.all_tasks()))
        await asyncio.sleep(0)

    asyncio.run(paced(range(100), send, at_once=3))
    assert requested == list(range(100))
    assert max(tasks) == 1 + 3
