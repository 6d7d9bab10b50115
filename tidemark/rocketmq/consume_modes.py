"""The meaning of each number of a group for each way of consumption, in one table.

An offset that moved is not a message that was consumed. `NUMBERS` states for each kind of
consumption which numbers are facts, bounds or unknown, from which requests they come, and why.
Spark, the live command and the documentation use it.

Sources: `PopMessageProcessor`, `PopBufferMergeService`, `PopConsumerService`,
`ConsumerOrderInfoManager`, `ChangeInvisibleTimeProcessor` and `BroadcastOffsetManager` of 5.3 to
5.5, and measurements on these brokers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from tidemark.model.consumption import ConsumeMode
from tidemark.rocketmq.wire.codes import RequestCode

REMEMBERED = timedelta(hours=24)
"""Time for which the last sign of a mode counts when no further sign is observed."""


class Kind(StrEnum):
    """Kinds of consumption whose numbers mean different things."""

    PULL = ConsumeMode.PULL
    BROADCAST_FILE = "broadcast_file"
    BROADCAST_BROKER = "broadcast_broker"
    POP = ConsumeMode.POP
    POP_KV = "pop_kv"
    POP_FIFO = "pop_fifo"
    LITE = "lite"
    MIXED = "mixed"
    UNKNOWN = "unknown"


COVERS: Mapping[Kind, str] = {
    Kind.PULL: "push consumers of the remoting protocol, concurrent and ordered",
    Kind.BROADCAST_FILE: "broadcasting clients that keep their offsets in files",
    Kind.BROADCAST_BROKER: "broadcasting groups by the broker's own `@broadcast` offset",
    Kind.POP: "POP by remoting; gRPC push and simple consumers, through a Proxy of either mode",
    Kind.POP_KV: "the same at a broker with `popConsumerKVServiceEnable`",
    Kind.POP_FIFO: "gRPC consumers of a group that consumes in order",
    Kind.LITE: "consumers of lite topics",
    Kind.MIXED: "groups with members that pull and members that pop",
    Kind.UNKNOWN: "assigned, lite pull and pull consumers, and groups of which nothing shows a "
    "mode: their numbers are those of a group that pulls, and hold as far as it does",
}
"""The consumers that each kind covers."""


class Number(StrEnum):
    """Numbers of a group, by the names of ``progress.groups``."""

    LAG = "lag"
    INFLIGHT = "inflight"
    AVAILABLE = "available"
    DELAY_MS = "delay_ms"
    READY_DELAY_MS = "ready_delay_ms"
    PRODUCE_TPS = "produce_tps"
    CONSUME_TPS = "consume_tps"
    PULL_TPS = "pull_tps"
    ACK_TPS = "ack_tps"
    DRAIN_SECONDS = "drain_seconds"
    ONLINE = "online"
    HEALTH = "health"


class Certainty(StrEnum):
    """Relation of a number to the truth."""

    FACT = "fact"
    LOWER_BOUND = "lower bound"
    UPPER_BOUND = "upper bound"
    UNKNOWN = "unknown"


class Witness(StrEnum):
    """Sources of a number of messages in flight; the values of ``inflight_source``."""

    OFFSETS = "offsets"
    CLIENT_CACHE = "client_cache"
    COUNTERS = "counters"
    BROKER_METRICS = "broker_metrics"


class ReadyFrom(StrEnum):
    """The offset after which messages wait to be handed out."""

    PULL_OFFSET = "pull_offset"
    COMMIT = "consumer_offset"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The meaning of one number for one kind of consumption.

    Attributes:
        certainty: whether the number is a fact, a bound or unknown.
        why: the reason, in one sentence.
        requests: codes of the requests that it comes from; empty where no request reports it.
        metrics: whether the broker's endpoint for Prometheus may fill it.
    """

    certainty: Certainty
    why: str
    requests: tuple[RequestCode, ...] = ()
    metrics: bool = False


COMMITS = RequestCode.GET_ALL_CONSUMER_OFFSET
ENDS = RequestCode.GET_TOPIC_STATS_INFO
PULLS = RequestCode.GET_CONSUME_STATS
MEMBERS = RequestCode.GET_CONSUMER_CONNECTION_LIST
REPORTS = RequestCode.GET_CONSUMER_RUNNING_INFO
COUNTERS = RequestCode.VIEW_BROKER_STATS_DATA
TIMES = RequestCode.QUERY_CONSUME_TIME_SPAN


def fact(why: str, *requests: RequestCode) -> Cell:
    """Return the cell of a number that is a fact."""
    return Cell(certainty=Certainty.FACT, why=why, requests=requests)


def at_least(why: str, *requests: RequestCode) -> Cell:
    """Return the cell of a number that is a lower bound."""
    return Cell(certainty=Certainty.LOWER_BOUND, why=why, requests=requests)


def at_most(why: str, *requests: RequestCode) -> Cell:
    """Return the cell of a number that is an upper bound."""
    return Cell(certainty=Certainty.UPPER_BOUND, why=why, requests=requests)


def unknown(why: str) -> Cell:
    """Return the cell of a number that no request reports."""
    return Cell(certainty=Certainty.UNKNOWN, why=why)


_PULL: Mapping[Number, Cell] = {
    Number.LAG: fact("The commit follows what the client finished.", COMMITS, ENDS),
    Number.INFLIGHT: fact(
        "The pull offset is the next one handed out; 4.9 and 5.5.1 report it group by group or in "
        "clients' reports only.",
        *(COMMITS, PULLS, REPORTS),
    ),
    Number.AVAILABLE: fact("Messages from the pull offset on wait in the broker.", ENDS, PULLS),
    Number.DELAY_MS: fact(
        "It is the age of the message at the commit; `delay_source` states how its store time is "
        "known.",
        *(COMMITS, TIMES),
    ),
    Number.READY_DELAY_MS: fact(
        "It is the age of the message at the pull offset, interpolated where no broker reported "
        "it.",
        *(ENDS, PULLS),
    ),
    Number.PRODUCE_TPS: fact("The end of a queue moves with each message written.", ENDS),
    Number.CONSUME_TPS: fact("The commit moves with what the client finished.", COMMITS),
    Number.PULL_TPS: fact("The pull offset moves with what was handed out.", PULLS),
    Number.ACK_TPS: unknown("Nobody acknowledges single messages."),
    Number.DRAIN_SECONDS: fact("Lag and both rates are facts.", COMMITS, ENDS),
    Number.ONLINE: fact("Members keep connections to every broker of the topic.", MEMBERS),
    Number.HEALTH: fact("A commit that stands below the end is a standstill.", COMMITS, ENDS),
}

_NO_PULL_OFFSET = "No broker and no client reports how far it has been handed out."
_BY_PROXY = at_least(
    "A Proxy in cluster mode knows its members alone, so `online` is NULL until it is asked; one "
    "in local mode is a broker.",
    MEMBERS,
)

_POP: Mapping[Number, Cell] = {
    **_PULL,
    Number.LAG: at_least(
        "The commit follows pops, so messages popped and not acknowledged are missing.",
        *(COMMITS, ENDS),
    ),
    Number.INFLIGHT: replace(
        unknown(
            "No offset shows it; remoting clients report what they did not acknowledge, and the "
            "broker's metrics endpoint reports it of gRPC groups."
        ),
        requests=(REPORTS,),
        metrics=True,
    ),
    Number.AVAILABLE: at_most(
        "Messages from the commit on wait in the broker; the commit follows a pop within about "
        "10 s.",
        *(COMMITS, ENDS),
    ),
    Number.DELAY_MS: at_least(
        "The first message that was not popped is known; an older one may be in flight.",
        *(COMMITS, TIMES),
    ),
    Number.READY_DELAY_MS: at_most("It is the age of the message at the commit.", COMMITS, TIMES),
    Number.CONSUME_TPS: unknown("The commit moves with pops."),
    Number.PULL_TPS: fact("The commit moves with pops.", COMMITS),
    Number.ACK_TPS: at_least(
        "Brokers count each acknowledgement and each renewal of the invisible time; checkpoints, "
        "counted for renewals and pops, are deducted.",
        COUNTERS,
    ),
    Number.DRAIN_SECONDS: unknown("The rest of the work is a bound."),
    Number.ONLINE: _BY_PROXY,
    Number.HEALTH: at_least(
        "Neither commits nor acknowledgements moved, or one of them did; messages that fail again "
        "and again show in retry topics.",
        *(COMMITS, ENDS, COUNTERS),
    ),
}

_OF_POPS = "Only 5.5.0 reports it of groups that pop."

_KV: Mapping[Number, Cell] = {
    **_POP,
    Number.LAG: at_least(
        "The commit lies between acknowledgements and pops; it reaches the end of the queue while "
        "nearly nothing is acknowledged.",
        *(COMMITS, ENDS),
    ),
    Number.INFLIGHT: replace(
        unknown(
            "No offset shows it, and the broker's metrics endpoint counts 0 with this service; a "
            "remoting client reports what it did not acknowledge."
        ),
        requests=(REPORTS,),
    ),
    Number.AVAILABLE: fact(f"The pull offset follows pops. {_OF_POPS}", ENDS, PULLS),
    Number.READY_DELAY_MS: _PULL[Number.READY_DELAY_MS],
    Number.PULL_TPS: fact(f"The pull offset moves with pops. {_OF_POPS}", PULLS),
    Number.ACK_TPS: at_least(
        "Brokers count acknowledgements, and with this service no renewals.", COUNTERS
    ),
}

_FIFO: Mapping[Number, Cell] = {
    **_PULL,
    Number.LAG: fact("The commit follows acknowledgements, in order.", COMMITS, ENDS),
    Number.INFLIGHT: unknown(
        "No offset shows it, and the broker's metrics endpoint counts these messages as ready, too."
    ),
    Number.AVAILABLE: unknown("The commit is no pull offset here: messages after it are popped."),
    Number.READY_DELAY_MS: unknown("The first message that was not popped is not known."),
    Number.CONSUME_TPS: fact("The commit moves with acknowledgements.", COMMITS),
    Number.PULL_TPS: unknown(_NO_PULL_OFFSET),
    Number.ACK_TPS: unknown(
        "Brokers count acknowledgements in order only with `popConsumerKVServiceEnable`."
    ),
    Number.ONLINE: _BY_PROXY,
}

_SHADOW: Mapping[Number, Cell] = {
    **_PULL,
    Number.LAG: at_least(
        "The broker keeps the smallest offset that any client pulled, not what one consumed.",
        *(COMMITS, ENDS),
    ),
    Number.INFLIGHT: unknown("Nobody but the clients knows what they finished."),
    Number.AVAILABLE: fact("The kept offset is a pull position.", COMMITS, ENDS),
    Number.DELAY_MS: at_least("It is the age of the first message not pulled.", COMMITS),
    Number.READY_DELAY_MS: fact("It is the age of the first message not pulled.", COMMITS),
    Number.CONSUME_TPS: unknown("The kept offset moves with pulls."),
    Number.PULL_TPS: fact("The kept offset moves with pulls.", COMMITS),
    Number.DRAIN_SECONDS: unknown("The rest of the work is a bound."),
    Number.HEALTH: unknown("The progress of no client is known."),
}

NUMBERS: Mapping[Kind, Mapping[Number, Cell]] = {
    Kind.PULL: _PULL,
    Kind.BROADCAST_FILE: {
        **_PULL,
        Number.LAG: fact("The client's own offset follows what it finished.", ENDS),
        Number.INFLIGHT: unknown(_NO_PULL_OFFSET),
        Number.AVAILABLE: unknown(_NO_PULL_OFFSET),
        Number.READY_DELAY_MS: unknown(_NO_PULL_OFFSET),
        Number.PULL_TPS: unknown(_NO_PULL_OFFSET),
    },
    Kind.BROADCAST_BROKER: _SHADOW,
    Kind.POP: _POP,
    Kind.POP_KV: _KV,
    Kind.POP_FIFO: _FIFO,
    Kind.LITE: {
        **_FIFO,
        Number.LAG: fact(
            "The commit is the first message of the last popped batch that is not acknowledged.",
            *(COMMITS, RequestCode.GET_LITE_TOPIC_INFO),
        ),
        Number.DELAY_MS: at_least(
            "Brokers get no further request about lite topics, so store times are interpolated.",
            COMMITS,
        ),
        Number.ACK_TPS: at_least(
            "Brokers count acknowledgements at the topic that the lite topics belong to.", COUNTERS
        ),
    },
    Kind.MIXED: {
        **_POP,
        Number.LAG: at_least("Both kinds of members move one commit.", COMMITS, ENDS),
        Number.AVAILABLE: unknown("Both kinds of members move one commit."),
        Number.READY_DELAY_MS: unknown("Both kinds of members move one commit."),
        Number.PULL_TPS: unknown("Both kinds of members move one commit."),
    },
    Kind.UNKNOWN: {
        **_PULL,
        Number.LAG: unknown(
            "It is a fact where the group pulls and a lower bound where it pops; nothing shows "
            "which, so `lag_is_lower_bound` is NULL."
        ),
        Number.ONLINE: fact(
            "Members keep connections; of what they consume they may report nothing, so `clients` "
            "may be NULL.",
            MEMBERS,
        ),
    },
}
"""The meaning of each number, by kind of consumption and number."""

IS_BOUND: Mapping[Certainty, bool | None] = {
    Certainty.FACT: False,
    Certainty.LOWER_BOUND: True,
    Certainty.UPPER_BOUND: False,
    Certainty.UNKNOWN: None,
}
"""The ``lag_is_lower_bound`` of a lag by its certainty."""

SHOWN_BY_OFFSETS = frozenset(
    kind for kind, numbers in NUMBERS.items() if PULLS in numbers[Number.INFLIGHT].requests
)
"""Kinds whose messages in flight lie between the commit and the pull offset."""


def ready_from(kind: Kind) -> ReadyFrom | None:
    """Return the offset after which messages of a queue wait; None where none is known."""
    cell = NUMBERS[kind][Number.AVAILABLE]
    if cell.certainty is Certainty.UNKNOWN:
        return None
    return ReadyFrom.PULL_OFFSET if PULLS in cell.requests else ReadyFrom.COMMIT


def kind_of(
    mode: str | None,
    *,
    is_lite: bool = False,
    offset_store: str | None = None,
    is_mixed: bool = False,
    is_orderly: bool = False,
    has_kv_service: bool = False,
) -> Kind:
    """Return the kind of consumption, as `spark.progress.consume_modes.consume_kind` does.

    Args:
        mode: `ConsumeMode`, or None where nothing shows one.
        is_lite: whether the topic is a lite topic.
        offset_store: where the offset is kept, as in ``raw.consumer_offsets``.
        is_mixed: whether members of both modes are seen.
        is_orderly: whether gRPC members of the group consume in order.
        has_kv_service: whether the broker has ``popConsumerKVServiceEnable``.
    """
    if offset_store == "broker_broadcast":
        return Kind.BROADCAST_BROKER
    if offset_store == "client_file":
        return Kind.BROADCAST_FILE
    if is_lite:
        return Kind.LITE
    if mode != ConsumeMode.POP:
        return Kind.PULL if mode else Kind.UNKNOWN
    if is_mixed:
        return Kind.MIXED
    if is_orderly:
        return Kind.POP_FIFO
    return Kind.POP_KV if has_kv_service else Kind.POP
