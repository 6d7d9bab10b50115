"""Kinds of rules: what each looks at, as SQL on one row.

A kind is a value and a comparison, nothing else, so a further kind is a further row here and
evaluating (`spark.alerts`) knows none of them by name.
"""

from dataclasses import dataclass

GROUPS = "groups"
BROKERS = "brokers"
SNAPSHOTS = "snapshots"
PIPELINE = "pipeline"
"""Not evaluated on snapshots: Tidemark's own work, looked at by the clock (`alerting.watch`)."""


@dataclass(frozen=True)
class Kind:
    """What rules of a kind look at.

    Attributes:
        source: rows it is asked of: `GROUPS` (``progress.groups``), `BROKERS` (``raw.brokers``),
            `SNAPSHOTS` (``raw.snapshots``) or `PIPELINE`.
        value: SQL of the number that is compared; NULL = not known.
        unit: of value and threshold: ``messages`` | ``seconds`` | ``share`` or empty.
        words: what is so when the rule is true; ``{value}`` is the number with its unit.
        only: SQL that has to be true as well; NULL = not known.
        below: whether it is true below its threshold, not above.
        of_part: whether what is true of the known part of an incomplete row is true of all of it.
        for_observations: how many observations in a row it takes unless the rule says.
        waiting: whether it is about messages that wait: then their worst queue, the oldest of them
            and the reason of the group's health are told too.
        certain: whether it is so whatever a broker that is silent would say: such a broker explains
            nothing of it.
        cause: column of the row that says why, where health does not.
        hint: what it mostly comes from and the next step, in a sentence or two.
    """

    source: str
    value: str
    unit: str
    words: str
    only: str = "true"
    below: bool = False
    of_part: bool = True
    for_observations: int = 1
    waiting: bool = True
    certain: bool = False
    cause: str = ""
    hint: str = ""


SUMS = frozenset(
    (
        *("lag", "inflight", "available", "lost", "readable_lag", "lag_upper", "max_queue_lag"),
        *("queues", "queues_unknown", "queues_never_committed", "clients"),
        *("delay_ms", "lag_span_ms", "inflight_span_ms", "available_span_ms"),
        *("produce_tps", "consume_tps", "pull_tps"),
        *("filtered_lag", "filtered_lag_low", "filtered_lag_high", "retry_lag", "dlq_messages"),
    )
)
"""Columns of ``progress.groups`` that a silent broker could only add to: sums and maxima."""

MINIMA = frozenset({"loss_in_seconds"})
"""Those that it could only lower."""


def known(condition: str, *, of_part: bool = True) -> str:
    """SQL of whether a condition is true of a row; NULL where what is known does not tell.

    What is missing from an incomplete row (a broker was silent) makes nothing untrue.

    Args:
        condition: SQL about numbers of the row.
        of_part: whether it is true of all where it is true of the known part: the unknown can only
            add to a sum.
    """
    if not of_part:
        return f"(CASE WHEN complete THEN {condition} END)"
    return (
        f"(CASE WHEN {condition} THEN true WHEN complete AND ({condition}) IS NOT NULL "
        "THEN false END)"
    )


def _health(
    state: str, words: str, hint: str = "", value: str = "coalesce(lag_upper, readable_lag)"
) -> Kind:
    """What `progress.groups.health` tells has been so for ten observations already."""
    # Its last observation being incomplete, a group may be LOSING and all else is not known.
    only = known(f"nullif(health, 'UNKNOWN') = '{state}'")
    return Kind(GROUPS, value, "messages", words, only=only, hint=hint)


_OF_RETRY_TOPIC = "topic = concat('%RETRY%', consumer_group)"
"""A number of the whole group stands in the rows of all its topics: one of them is asked."""

KINDS = {
    "lag": Kind(
        GROUPS,
        "readable_lag",
        "messages",
        "{value} wait",
        for_observations=3,
        hint="More is produced than consumed: look for slow or failing handling, then for too few "
        "clients or threads (tidemark plan).",
    ),
    "filtered_lag": Kind(
        GROUPS,
        "filtered_lag",
        "messages",
        "{value} that pass the filter wait",
        for_observations=3,
        hint="More that the group asks for is produced than it consumes: look for slow or failing "
        "handling, then for too few clients or threads (tidemark plan).",
    ),
    "delay": Kind(
        GROUPS,
        "delay_ms / 1000",
        "seconds",
        "the oldest waits for {value}",
        for_observations=3,
        hint="A queue is read too slowly or not at all: worst_broker and worst_queue_id name it; "
        "look at the client that holds it (tidemark show progress.assignments).",
    ),
    "nobody_online": Kind(
        GROUPS,
        "readable_lag",
        "messages",
        "{value} wait and nobody of the group is online",
        only="NOT online",
        hint="Every consumer is stopped, was never started, or cannot reach the brokers: look at "
        "its deployment first.",
        for_observations=2,
    ),
    "never_committed": Kind(
        GROUPS,
        "lag_upper",
        "messages",
        "the group is online, has never committed, and up to {value} wait",
        only=f"online AND {known('queues_never_committed = queues', of_part=False)}",
        hint="Handling fails or hangs from the first message on, or the client keeps its offsets "
        "elsewhere: look at its log.",
        for_observations=5,
    ),
    "lost": Kind(
        GROUPS,
        "lost",
        "messages",
        "{value} expired unread",
        hint="The group was behind for longer than the broker keeps messages; they are gone. "
        "Replay them from their source if they matter.",
    ),
    "soon_lost": Kind(
        GROUPS,
        "loss_in_seconds",
        "seconds",
        "the first unread message may expire in {value}",
        only=known("readable_lag > 0"),
        below=True,
        hint="Speed the group up or keep messages longer (fileReservedTime) before they go.",
    ),
    "falling_behind": _health(
        "FALLING_BEHIND",
        "{value} wait and they become more",
        "More is produced than consumed: add clients up to the number of queues, or threads.",
    ),
    "stalled": _health(
        "STALLED",
        "{value} wait and a queue makes no progress",
        "A client holds the queue and reads nothing: look at its threads, or restart it.",
    ),
    "blocked": _health(
        "BLOCKED",
        "{value} wait and messages handed out are not finished",
        "Handling hangs or fails on one message: look at the client's threads and its log.",
    ),
    "stopped": _health(
        "STOPPED",
        "{value} wait and nothing is read",
        "Nobody of the group is online: look at its deployment.",
    ),
    "losing": _health(
        "LOSING",
        "messages expire before they are read, {value} so far",
        "The group is behind for longer than the broker keeps messages: speed it up, or keep "
        "messages longer (fileReservedTime).",
        value="lost",
    ),
    "retry_growth": Kind(
        GROUPS,
        "readable_lag_growth",
        "messages",
        "{value} more wait for another attempt",
        only=_OF_RETRY_TOPIC,
        hint="Handling fails again and again: look at the clients' log and at what they depend on, "
        "before the messages are given up on.",
        for_observations=3,
    ),
    "dlq_growth": Kind(
        GROUPS,
        "dlq_messages_growth",
        "messages",
        "{value} more were given up on (dead-letter topic)",
        only=_OF_RETRY_TOPIC,
        waiting=False,
        certain=True,
        hint="Handling failed for good: read the messages of the dead-letter topic, then the log.",
    ),
    "rewound": Kind(
        GROUPS,
        "coalesce(rewound_messages, 0)",
        "messages",
        "{value} will be consumed again: the offset went back",
        waiting=False,
        certain=True,
        cause="rewound_cause",
        hint="Somebody reset the offset, or the broker lost what was committed. Handling has to "
        "bear seeing messages twice.",
    ),
    "contested_queues": Kind(
        GROUPS,
        "contested_queues",
        "",
        "{value} queues are held by more than one member",
        waiting=False,
        hint="Members disagree on who is in the group: different client ids, versions or "
        "strategies. Messages of these queues are consumed twice.",
        for_observations=2,
    ),
    "unowned_queues": Kind(
        GROUPS,
        "unowned_queues",
        "",
        "{value} queues are held by nobody",
        waiting=False,
        hint="Members are online and none reads these queues: look for different strategies or a "
        "rebalance that does not end.",
        for_observations=2,
    ),
    "idle_clients": Kind(
        GROUPS,
        # Nobody is idle where members told what they hold and no row says so.
        "CASE WHEN contested_queues IS NOT NULL THEN coalesce(idle_members, 0) END",
        "",
        "{value} members hold no queue",
        waiting=False,
        cause="idle_reasons",
        hint="More members than queues, or the strategy leaves some out: `tidemark plan` tells "
        "what another number of queues or another strategy gives.",
        for_observations=2,
    ),
    "inconsistent_subscription": Kind(
        GROUPS,
        # All of the group's topics know it: told of one in which they differ.
        "CASE WHEN topic <> differing_topic THEN 0 * subscription_differences "
        "ELSE subscription_differences END",
        "",
        "members differ in {value} of what they ask for",
        waiting=False,
        certain=True,
        cause="differing_in",
        hint="Members of one group must subscribe to the same, else messages are lost to the "
        "filter of the wrong member: `tidemark show progress.subscriptions` has who asks what.",
    ),
    "throughput_drop": Kind(
        GROUPS,
        "usual_share",
        "share",
        "it reads {value} of what it reads at this hour on former days",
        waiting=False,
        below=True,
        of_part=False,
        hint="Less is produced, or the group reads less of it: compare hourly_tps with the "
        "topic's.",
        for_observations=2,
    ),
    "column": Kind(GROUPS, "", "", "{value}", for_observations=3),
    "broker_down": Kind(
        BROKERS,
        "silent",
        "",
        "it did not answer",
        hint="It is down, cut off or overloaded. What it holds is unknown, not zero.",
    ),
    "disk": Kind(
        BROKERS,
        "disk_ratio",
        "share",
        "its disk is {value} full",
        hint="Above diskMaxUsedSpaceRatio the broker deletes messages early, then it refuses new "
        "ones.",
    ),
    "collection_incomplete": Kind(
        SNAPSHOTS,
        "CASE WHEN status = 'FAILED' THEN greatest(coalesce(brokers_expected, 1), 1) "
        "ELSE greatest(brokers_expected - brokers_answered, cardinality(unread)) END",
        "",
        "{value} brokers could not be read",
        for_observations=2,
        hint="A broker is down, or answers and does not tell its offsets: the snapshot's problems "
        "name what failed and why (tidemark show raw.snapshots).",
    ),
    "collection_late": Kind(
        PIPELINE,
        "",
        "seconds",
        "the newest computed snapshot is {value} old",
        hint="Nothing is being watched. Look at Dagster's daemon and the last runs of `tick`.",
    ),
    "quality": Kind(
        PIPELINE,
        "",
        "",
        "{value} rows break it",
        hint="What a broker told cannot be, or does not agree with the rest: `tidemark show "
        "quality.results` has examples, `tidemark quarantine list` the rows held back.",
    ),
    "run_failed": Kind(
        PIPELINE,
        "",
        "",
        "{value} runs failed in a row",
        hint="The last run in Dagster names the step and the error: mostly a full disk, too little "
        "memory, or a file or setting that cannot be read.",
    ),
}
"""Kind by name."""


def holds(kind: Kind, value: str, threshold: float, *more: str) -> str:
    """SQL of whether a rule of a kind is true of a row; NULL = not known.

    Args:
        kind: of the rule.
        value: SQL of the number compared.
        threshold: what it is compared with.
        more: SQL conditions that have to be true as well, each `known` of a part.
    """
    compared = f"({value}) {'<' if kind.below else '>'} {threshold!r}D"
    conditions = [known(compared, of_part=kind.of_part), *map(known, more)]
    only = [] if kind.only == "true" else [f"({kind.only})"]
    return " AND ".join([*conditions, *only])
