"""Random groups whose queues are shared."""

import random
from collections.abc import Iterator

from tidemark.rocketmq.allocation import SELF_CONTAINED, STRATEGIES


def random_cases(seed: int, count: int) -> Iterator[tuple]:
    """Cases like those of real clusters, with names that are easy to get wrong among them."""
    chance = random.Random(seed)
    letters = ["a", "B", "10", "9", "-", "_", "#", "é", "\uff21", "\U0001f600", "中"]
    for _ in range(count):
        strategy = chance.choice(
            [*STRATEGIES, *(f"MACHINE_ROOM_NEARBY-{s}" for s in SELF_CONTAINED)]
        )
        rooms = ["MR1", "MR2", "MR10"][: chance.randint(1, 3)]
        separator = "@" if strategy == "MACHINE_ROOM" else "-"
        brokers = [
            chance.choice(["MR1", "MR2", "MR3"]) + separator + "".join(chance.choices(letters, k=3))
            for _ in range(chance.randint(1, 4))
        ]
        some = [
            (broker, number) for broker in set(brokers) for number in range(chance.randint(1, 17))
        ]
        clients = {
            f"{chance.choice(['MR1', 'MR2', 'MR4'])}-10.0.0.{chance.randint(1, 20)}@"
            f"{chance.randint(1, 30000)}{''.join(chance.choices(letters, k=2))}"
            for _ in range(chance.randint(1, 24))
        }
        chance.shuffle(some)
        topic = "".join(chance.choices(letters, k=4))
        yield strategy, topic, chance.choice([1, 10, 100]), rooms, some, sorted(clients)
