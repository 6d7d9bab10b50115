"""Allocation: recorded results of the real client classes, properties, and those classes.

The golden cases were printed by the classes of 4.9.7, 5.3.3 and 5.5.0; random ones are run by the
classes themselves, which need a JVM and no broker.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.allocation_cases import random_cases
from tidemark.lab import jars
from tidemark.rocketmq.allocation import STRATEGIES, allocate

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "fixtures" / "golden" / "allocation.txt"


def queues(**brokers: int) -> list[tuple[str, int]]:
    """``queues(broker_a=2)``: that many queues of each broker."""
    return [
        (broker.replace("_at_", "@").replace("_", "-"), queue_id)
        for broker, count in brokers.items()
        for queue_id in range(count)
    ]


def golden() -> dict[str, dict[str, list[tuple[str, int]]]]:
    """The recorded cases by title: the queues of each client."""
    cases: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("## "):
            mine = cases[re.split(" (?:name|mq)=", line[3:])[0]] = {}
        elif line.startswith("   ") and " -> " in f"{line} ":
            client, _, owned = line.strip().partition(" ->")
            pairs = [item.rpartition("/") for item in owned.split()]
            mine[client] = [(broker, int(queue_id)) for broker, _, queue_id in pairs]
    return cases


TWO_BROKERS = queues(broker_a=4, broker_b=4)
ROOMS = queues(idc1_at_broker_a=4, idc2_at_broker_b=4, idc3_at_broker_c=2)
NEAR = queues(MR1_b=4, MR2_b=4, MR3_b=3)
INPUTS = {
    "AVG 8/3": ("AVG", TWO_BROKERS, {}),
    "AVG 4/6": ("AVG", queues(broker_a=4), {}),
    "CIRCLE 8/3": ("AVG_BY_CIRCLE", TWO_BROKERS, {}),
    "CIRCLE 4/6": ("AVG_BY_CIRCLE", queues(broker_a=4), {}),
    "ROOM 10/3": ("MACHINE_ROOM", ROOMS, {"rooms": ("idc1", "idc2")}),
    "ROOM idc1 only 3/4": (
        "MACHINE_ROOM",
        queues(idc1_at_broker_a=3, idc2_at_broker_b=4),
        {"rooms": ("idc1",)},
    ),
    "HASH 8/3 v10": ("CONSISTENT_HASH", TWO_BROKERS, {}),
    "HASH 8/2 real cids": ("CONSISTENT_HASH", TWO_BROKERS, {}),
    "HASH 8/3 v100": ("CONSISTENT_HASH", TWO_BROKERS, {"virtual_nodes": 100}),
    "NEARBY(AVG)": ("MACHINE_ROOM_NEARBY", NEAR, {}),
    "NEARBY(CIRCLE)": ("MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", NEAR, {}),
    "CONFIG": ("CONFIG", queues(broker_a=2), {}),
}
"""Arguments of the recorded cases, by their titles."""


def test_every_golden_case_is_computed():
    assert set(golden()) == set(INPUTS)


@pytest.mark.parametrize("title", INPUTS)
def test_golden_cases(title):
    strategy, given_queues, other = INPUTS[title]
    expected = golden()[title]
    assert allocate(strategy, "TopicA", given_queues, expected, **other) == expected


def test_rooms_come_by_name_or_mapping():
    expected = golden()["NEARBY(AVG)"]
    names = {name for name, _ in NEAR} | set(expected)
    mapping = {name: f"room of {name[:3]}" for name in names}
    for rooms in (("MR1", "MR2", "MR3"), mapping):
        assert allocate("MACHINE_ROOM_NEARBY", "TopicA", NEAR, expected, rooms=rooms) == expected


def test_names_are_ordered_as_java_orders_them():
    """`sort` and `cid sort` of the golden file, and a name beyond the 16-bit characters."""
    clients = [
        "a",
        "B",
        "192.168.0.9@1",
        "192.168.0.10@1",
        "192.168.0.9@10#2",
        "\uff21",
        "\U0001f600",
    ]
    owned = allocate("AVG_BY_CIRCLE", "t", [("b", number) for number in (10, 9, 2, 11)], clients)
    assert list(owned) == [
        *("192.168.0.10@1", "192.168.0.9@1", "192.168.0.9@10#2", "B", "a", "\U0001f600", "\uff21")
    ]
    assert [mine[0][1] for mine in owned.values() if mine] == [2, 9, 10, 11]


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        (("avg", "t", [("b", 0)], ["c"]), "no allocation strategy 'avg': known are AVG, "),
        ((None, "t", [("b", 0)], ["c"]), "no allocation strategy 'None'"),
        (("AVG", "t", [("b", 0)], []), "no clients"),
        (("AVG", "t", [("b", 0)], "c1"), "clients must be a list"),
        (("AVG", "t", [("b", 0)], ["c", ""]), "'' is no client id"),
        (("AVG", "t", [("b", 0)], ["c", "c"]), "client 'c' is given 2 times"),
        (("AVG", "t", [], ["c"]), "no queues to allocate on topic 't'"),
        (("AVG", "t", [("b", 0), ("b", 0)], ["c"]), "queue ('b', 0) is given 2 times"),
        (("AVG", "t", [("b", -1)], ["c"]), "('b', -1) is no queue"),
        (("AVG", "t", [("b", "0")], ["c"]), "('b', '0') is no queue"),
        (("AVG", "t", ["b"], ["c"]), "'b' is no queue"),
        (("MACHINE_ROOM", "t", [("r@b", 0)], ["c"]), "MACHINE_ROOM needs rooms"),
        (("MACHINE_ROOM_NEARBY-CONFIG", "t", [("b", 0)], ["c"]), "no allocation strategy"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, expected_text):
    with pytest.raises(ValueError) as error:
        allocate(*arguments)
    assert expected_text in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("strategy", "other", "expected_text"),
    [
        ("CONSISTENT_HASH", {"virtual_nodes": 0}, "virtual_nodes must be a number from 1, not 0"),
        ("MACHINE_ROOM", {"rooms": "r"}, "rooms must be a list of names"),
        ("MACHINE_ROOM_NEARBY", {"rooms": {"b": "r"}}, "the room of 'c' is unknown"),
        ("MACHINE_ROOM_NEARBY", {"rooms": ["b"]}, "the room of 'c' is unknown"),
    ],
)
def test_missing_parameters_of_a_strategy_are_named(strategy, other, expected_text):
    with pytest.raises(ValueError, match=re.escape(expected_text)):
        allocate(strategy, "t", [("b", 0)], ["c"], **other)


names = st.text(st.characters(codec="utf-8", exclude_characters="@-"), min_size=1, max_size=6)
queue_lists = st.lists(
    st.tuples(st.builds("r{}@{}".format, st.integers(0, 3), names), st.integers(0, 40)),
    min_size=1,
    max_size=40,
    unique=True,
)
client_lists = st.lists(
    st.builds("r{}-{}".format, st.integers(0, 4), names), min_size=1, max_size=12, unique=True
)
exclusive = st.sampled_from([name for name in STRATEGIES if name != "CONFIG"])
OTHER = {"rooms": ("r0", "r1", "r2", "r3", "r4")}


@given(exclusive, names, queue_lists, client_lists)
def test_every_queue_has_one_owner(strategy, topic, queues, clients):
    owned = allocate(strategy, topic, queues, clients, **OTHER)
    assert set(owned) == set(clients)
    assert Counter(queue for mine in owned.values() for queue in mine) == Counter(queues)


@given(st.sampled_from(["AVG", "AVG_BY_CIRCLE"]), queue_lists, client_lists)
def test_averages_differ_by_one_at_most(strategy, queues, clients):
    sizes = [len(mine) for mine in allocate(strategy, "t", queues, clients).values()]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True), "the first ones take what is over"


@given(queue_lists, client_lists, st.data())
def test_the_order_of_the_input_does_not_matter(queues, clients, data):
    for strategy in (name for name in STRATEGIES if name != "CONFIG"):
        expected = allocate(strategy, "t", queues, clients, **OTHER)
        shuffled = data.draw(st.permutations(queues)), data.draw(st.permutations(clients))
        pairs = allocate(strategy, "t", *shuffled, **OTHER)
        assert list(pairs.items()) == list(expected.items())


@given(queue_lists, client_lists)
def test_config_gives_everybody_everything(queues, clients):
    owned = allocate("CONFIG", "t", queues, clients)
    assert owned == dict.fromkeys(clients, queues)


@given(names, queue_lists, client_lists, names)
def test_consistent_hash_moves_queues_to_the_new_member_only(topic, queues, clients, newcomer):
    """Consistent hashing exists for this: an average moves queues between old members too."""
    newcomer = f"new {newcomer}"
    before = allocate("CONSISTENT_HASH", topic, queues, clients)
    after = allocate("CONSISTENT_HASH", topic, queues, [*clients, newcomer])
    assert all(set(after[client]) <= set(before[client]) for client in clients)


@pytest.mark.cluster
@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "5.5.0"])
def test_random_cases_are_as_the_client_has_them(version, tmp_path):
    cases = list(random_cases(seed=int(version.replace(".", "")), count=600))
    lines = [
        "\t".join(
            [
                *(strategy, topic, str(virtual_nodes), ",".join(rooms)),
                ",".join(f"{broker}/{number}" for broker, number in some),
                ",".join(clients),
            ]
        )
        for strategy, topic, virtual_nodes, rooms, some, clients in cases
    ]
    no_logging = tmp_path / "logback.xml"  # 5.x prints its log configuration
    no_logging.write_text("<configuration/>")
    completed = subprocess.run(
        [
            *(jars.find("java"), "-Xmx256m", "-XX:+UseSerialGC", f"-Duser.home={tmp_path}"),
            f"-Drmq.logback.configurationFile={no_logging}",
            *("-cp", f"{jars.fetch(version)}/*", str(HERE / "Allocations.java")),
        ],
        input="\n".join(lines) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=400,
    )
    assert completed.returncode == 0, completed.stderr
    answers = completed.stdout.splitlines()
    assert len(answers) == len(cases)
    for (strategy, topic, virtual_nodes, rooms, some, clients), printed in zip(
        cases, answers, strict=True
    ):
        nearby = strategy.startswith("MACHINE_ROOM_NEARBY")
        owned = allocate(
            strategy,
            topic,
            some,
            clients,
            virtual_nodes=virtual_nodes,
            rooms=() if nearby else rooms,
        )
        expected_text = "\t".join(
            f"{client}={','.join(f'{broker}/{number}' for broker, number in mine)}"
            for client, mine in owned.items()
        )
        assert expected_text == printed, (strategy, topic)
