"""Kinds of alert rules: the number that each compares, as SQL on one row, which may be partial.

A kind is a value and a comparison. A further kind is one more entry here, because the evaluation
(`spark.alerts.evaluation`) names no kind.
"""

from dataclasses import dataclass

from tidemark.lake.bounds import certain
from tidemark.model.health import Health
from tidemark.model.snapshots import SnapshotStatus

GROUPS = "groups"
TOPICS = "topics"
BROKERS = "brokers"
SNAPSHOTS = "snapshots"
PIPELINE = "pipeline"
"""Rules about Tidemark's own work, evaluated by the clock and not on snapshots; see
`tidemark.alerting.incidents.self_monitoring`."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of alert rules: the rows, the value and condition on them, and the texts.

    Attributes:
        source: the rows: `GROUPS` (``progress.groups``), `TOPICS` (``progress.topics``), `BROKERS`
            (``raw.brokers``), `SNAPSHOTS` (``raw.snapshots``) or `PIPELINE`.
        value: SQL of the number that is compared; NULL = unknown.
        unit: of value and threshold: ``messages`` | ``seconds`` | ``share`` or empty.
        words: statement of notifications when a rule is true; ``{value}`` is the number and its
            unit.
        words_one: the same where the number is 1, as English needs it.
        words_uncounted: the same where a true rule may have no number.
        condition: SQL that has to be true as well, empty without one; NULL = unknown.
        below: whether a rule is true below its threshold, not above.
        part_suffices: whether a comparison that is true of the known part of an incomplete row is
            true of the whole row.
        for_observations: observations in a row until an incident fires, unless the rule sets it.
        about_group: whether the number is of the whole group and repeated in the rows of all its
            topics. Only one of the rows that a rule applies to is evaluated.
        about_backlog: whether it is about waiting messages. Notifications then also name the worst
            queue, the oldest waiting message and the reason of the group's health.
        certain: whether it is true whatever an unreachable broker would report. Such a broker then
            inhibits none of its incidents.
        cause: column of the row that names the cause, where health does not.
        hint: the usual cause and the next step, in a sentence or two.
        recovery: statement of notifications when an incident resolves by itself.
        of_unregistered: whether it is about groups without a configuration. All other kinds are
            untrue of these, which are unused left-overs.
    """

    source: str
    value: str
    unit: str
    words: str
    condition: str = ""
    below: bool = False
    part_suffices: bool = True
    for_observations: int = 1
    about_group: bool = False
    about_backlog: bool = True
    certain: bool = False
    cause: str = ""
    hint: str = ""
    words_one: str = ""
    words_uncounted: str = ""
    recovery: str = "the rule is no longer true"
    of_unregistered: bool = False


def known(condition: str, *, part_suffices: bool = True) -> str:
    """Return SQL of whether a condition is true of a row; NULL where that is unknown.

    Neither the missing part of an incomplete row nor a bound makes a condition untrue: the truth
    may lie beyond the number.

    Args:
        condition: SQL about numbers of the row.
        part_suffices: whether the condition is true of the truth where it is true of the known
            part or of the bound, because the truth can only lie further on its side.
    """
    sure = certain(condition)
    if not part_suffices:
        return f"(CASE WHEN {sure} THEN {condition} END)"
    return (
        f"(CASE WHEN {condition} THEN true WHEN {sure} AND ({condition}) IS NOT NULL "
        "THEN false END)"
    )


def _health(
    state: Health, words: str, hint: str = "", value: str = "coalesce(lag_upper, readable_lag)"
) -> Kind:
    """Return the kind of a state of `progress.groups.health`, which covers ten observations."""
    # After an incomplete observation a group may be LOSING, and every other state is unknown.
    condition = known(f"nullif(health, '{Health.UNKNOWN}') = '{state}'")
    return Kind(
        source=GROUPS, value=value, unit="messages", words=words, condition=condition, hint=hint
    )


def _of_members(number: str) -> str:
    """Return a number that members report; 0 where none is online, or none has the topic.

    Members that report assign the queues of all their topics. A topic that they left has no
    queue among these, and its row stays.
    """
    return f"CASE WHEN NOT online THEN 0 WHEN assigned_queues > 0 THEN coalesce({number}, 0) END"


USUAL_REDELIVERIES = 0.1
"""Share of a group's messages that may be redelivered while handling is healthy as a whole."""

KINDS = {
    "lag": Kind(
        source=GROUPS,
        value="readable_lag",
        unit="messages",
        words="{value} wait",
        for_observations=3,
        hint="More is produced than consumed: look for slow or failing handling, then for too few "
        "clients or threads (tidemark plan).",
    ),
    "filtered_lag": Kind(
        source=GROUPS,
        value="filtered_lag",
        unit="messages",
        words="{value} that pass the filter wait",
        condition=known("readable_lag > 0"),
        for_observations=3,
        hint="More matching messages are produced than consumed: look for slow or failing "
        "handling, then for too few clients or threads (tidemark plan).",
    ),
    "delay": Kind(
        source=GROUPS,
        value="delay_ms / 1000",
        unit="seconds",
        words="the oldest waits for {value}",
        condition=known("readable_lag > 0"),
        for_observations=3,
        hint="A queue is consumed too slowly or not at all: worst_broker and worst_queue_id name "
        "it; check the client that holds it (tidemark show progress.assignments).",
    ),
    "ready_delay": Kind(
        source=GROUPS,
        value="ready_delay_ms / 1000",
        unit="seconds",
        words="the first message that no client has got waits for {value}",
        condition=known("readable_lag > 0"),
        for_observations=3,
        hint="No client pulls it: clients are too few, busy with what they have, or suspended. "
        "Add clients, or find what keeps them.",
    ),
    "nobody_online": Kind(
        source=GROUPS,
        value="readable_lag",
        unit="messages",
        words="{value} wait and no member of the group is online",
        condition="NOT online",
        hint="Every consumer is stopped, was never started, or cannot reach the brokers: check "
        "its deployment first.",
        for_observations=2,
    ),
    "never_committed": Kind(
        source=GROUPS,
        value="lag_upper",
        unit="messages",
        words="the group is online, has never committed, and up to {value} wait",
        condition=f"online AND {known('queues_never_committed = queues', part_suffices=False)}",
        hint="Handling fails or hangs from the first message on, or the client keeps its offsets "
        "elsewhere: check its log.",
        for_observations=5,
    ),
    "lost": Kind(
        source=GROUPS,
        value="lost",
        unit="messages",
        words="{value} expired before they were consumed",
        hint="The group was behind for longer than the broker keeps messages; they cannot be read. "
        "Send them again from their source if they matter.",
    ),
    "soon_lost": Kind(
        source=GROUPS,
        value="loss_in_seconds",
        unit="seconds",
        words="the first unconsumed message may expire in {value}",
        condition=known("readable_lag > 0"),
        below=True,
        hint="Speed the group up or keep messages longer (fileReservedTime).",
    ),
    "falling_behind": _health(
        Health.FALLING_BEHIND,
        "{value} wait, and the number grows",
        "More is produced than consumed: add clients up to the number of queues, or threads.",
    ),
    "stalled": _health(
        Health.STALLED,
        "{value} wait and a queue makes no progress",
        "A client holds the queue and consumes nothing: check its threads, or restart it.",
    ),
    "blocked": _health(
        Health.BLOCKED,
        "{value} wait and messages handed out are not finished",
        "Handling hangs or fails on one message: check the client's threads and its log.",
        # All messages of a POP group may be handed out, and nothing lags.
        value="greatest(coalesce(lag_upper, readable_lag), inflight)",
    ),
    "stopped": _health(
        Health.STOPPED,
        "{value} wait and nothing is consumed",
        "No member of the group is online: check its deployment.",
    ),
    "losing": _health(
        Health.LOSING,
        "messages expire before they are consumed, {value} so far",
        "The group is behind for longer than the broker keeps messages: speed it up, or keep "
        "messages longer (fileReservedTime).",
        value="lost",
    ),
    "retry_growth": Kind(
        source=GROUPS,
        value="retry_lag_growth",
        unit="messages",
        words="{value} more wait for another attempt",
        about_group=True,
        hint="Handling fails again and again: check the clients' log and the services they "
        "depend on, before the messages go to the dead-letter topic.",
        for_observations=3,
    ),
    "redelivery": Kind(
        source=GROUPS,
        value="redelivered_tps * 60",
        unit="messages",
        words="{value} a minute come back for another attempt",
        condition=f"coalesce(redelivered_share > {USUAL_REDELIVERIES}, true)",
        about_group=True,
        about_backlog=False,
        hint="Handling fails, or acknowledgements come too late or are refused: check the clients' "
        "log, and how long handling takes beside the invisible time.",
        for_observations=5,
    ),
    "dlq_growth": Kind(
        source=GROUPS,
        value="dlq_messages_growth",
        unit="messages",
        words="{value} more went to the dead-letter topic",
        about_group=True,
        about_backlog=False,
        certain=True,
        hint="Handling failed for good: read the messages of the dead-letter topic, then the log.",
    ),
    "rewound": Kind(
        source=GROUPS,
        value="coalesce(rewound_messages, 0)",
        unit="messages",
        words="{value} will be consumed again: the offset went back",
        about_backlog=False,
        certain=True,
        cause="rewound_cause",
        hint="The offset was reset, or the broker lost commits. Consumers have to tolerate "
        "messages that arrive twice.",
    ),
    "contested_queues": Kind(
        source=GROUPS,
        value=_of_members("contested_queues"),
        unit="",
        words="{value} queues are held by more than one member",
        about_backlog=False,
        words_one="{value} queue is held by more than one member",
        hint="Members disagree on who is in the group: different client ids, versions or "
        "strategies. Messages of these queues are consumed twice.",
        for_observations=2,
    ),
    "unowned_queues": Kind(
        source=GROUPS,
        value=_of_members("unowned_queues"),
        unit="",
        words="{value} queues are held by no member",
        about_backlog=False,
        words_one="{value} queue is held by no member",
        hint="Members are online and none consumes these queues: look for different strategies or "
        "a rebalance that does not end.",
        for_observations=2,
    ),
    "idle_clients": Kind(
        source=GROUPS,
        value=_of_members("idle_members"),
        unit="",
        words="{value} members hold no queue",
        about_backlog=False,
        cause="idle_reasons",
        words_one="{value} member holds no queue",
        hint="More members than queues, or the strategy leaves some out: `tidemark plan` shows "
        "what another number of queues or another strategy gives.",
        for_observations=2,
    ),
    "inconsistent_subscription": Kind(
        source=GROUPS,
        # The number is in the rows of all topics: only a topic that differs counts.
        value="CASE WHEN NOT online THEN 0 WHEN topic <> differing_topic "
        "THEN 0 * subscription_differences ELSE subscription_differences END",
        unit="",
        words="members differ in {value} points of their subscriptions",
        about_backlog=False,
        certain=True,
        cause="differing_in",
        words_one="members differ in {value} point of their subscriptions",
        hint="Members of one group must subscribe to the same, else messages are lost to the "
        "filter of the wrong member: `tidemark show progress.subscriptions` lists them.",
    ),
    "duplicate_client_ids": Kind(
        source=GROUPS,
        value="duplicate_client_ids",
        unit="",
        words="{value} client ids are used by several processes",
        about_group=True,
        about_backlog=False,
        certain=True,
        words_one="{value} client id is used by several processes",
        hint="Processes with one client id take the same queues and leave others to nobody: give "
        "each an instanceName or a host name of its own.",
        for_observations=3,
    ),
    "mixed_members": Kind(
        source=GROUPS,
        value="CAST(mixed_members AS INT)",
        unit="",
        words="remoting and gRPC members consume in one group",
        about_group=True,
        about_backlog=False,
        certain=True,
        hint="Members of both kinds do not share messages with each other, so many are consumed "
        "twice: give one kind a group of its own.",
        for_observations=3,
    ),
    "unregistered": Kind(
        source=GROUPS,
        value="queues",
        unit="",
        words="the group has no configuration, and its offsets stay: those on {value} queues of "
        "the topic",
        condition="NOT registered",
        about_group=True,
        about_backlog=False,
        words_one="the group has no configuration, and its offset stays: that on {value} queue of "
        "the topic",
        certain=True,
        hint="Nothing needs them, unless the group is to be created again where it was: delete "
        "them with the topic, or with the group (mqadmin deleteSubGroup -r true).",
        of_unregistered=True,
    ),
    "throughput_drop": Kind(
        source=GROUPS,
        value="usual_share",
        unit="share",
        words="it consumes {value} of the usual rate at this hour",
        about_backlog=False,
        below=True,
        part_suffices=False,
        hint="Less is produced, or the group consumes less of it: compare hourly_tps with the "
        "topic's.",
        for_observations=2,
    ),
    "unusual": Kind(
        source=GROUPS,
        # A usual value of 0 would make any other infinitely unusual.
        value="CASE WHEN delay_ms IS NOT NULL AND lag IS NOT NULL "
        "AND usual_high_delay_ms IS NOT NULL AND usual_high_lag IS NOT NULL "
        "THEN least(delay_ms / greatest(usual_high_delay_ms, 1000), "
        "lag / greatest(usual_high_lag, 1)) END",
        unit="",
        words="its delay and its lag are {value} times the usual ones at this hour of the week",
        for_observations=10,
        hint="The group was never this late at this hour in the weeks before: look for a deploy, a "
        "change of its producers, or a slower dependency (tidemark why).",
        recovery="delay or lag is as usual",
    ),
    "burn_rate": Kind(
        source=GROUPS,
        value="",
        unit="",
        words="its error budget is used {value} times as fast as it lasts",
        certain=True,
        hint="The group misses its objective in both windows of the rule: the other incidents of "
        "the group name the cause (tidemark why).",
        for_observations=2,
        recovery="the error budget is no longer used that fast",
    ),
    "column": Kind(source=GROUPS, value="", unit="", words="{value}", for_observations=3),
    "unreadable_messages": Kind(
        source=TOPICS,
        value="unreadable_messages",
        unit="messages",
        words="{value} are in queues that no consumer can read",
        # Brokers may create dead-letter topics without read permission.
        condition="coalesce(kind, 'normal') = 'normal'",
        for_observations=3,
        about_backlog=False,
        certain=True,
        cause="unreadable_reason",
        hint="The topic has fewer read queues than write queues, or no read permission: raise its "
        "read queues or permission before the messages expire.",
    ),
    "dead_letter_age": Kind(
        source=TOPICS,
        value="dead_letter_age_seconds",
        unit="seconds",
        words="the oldest dead letter has waited for {value}",
        about_backlog=False,
        certain=True,
        hint="Nobody has dealt with them, and the broker deletes them when their retention ends: "
        "read them, repair the handler, and send again what matters.",
        recovery="no dead letter is that old",
    ),
    "broker_down": Kind(
        source=BROKERS,
        value="unreachable",
        unit="",
        words="it did not respond",
        hint="It is down, disconnected or overloaded. Its numbers are unknown, not zero.",
    ),
    "disk": Kind(
        source=BROKERS,
        value="disk_ratio",
        unit="share",
        words="its disk is {value} full",
        hint="Above diskMaxUsedSpaceRatio the broker deletes messages early, then it refuses new "
        "ones.",
    ),
    "slave_offsets_behind": Kind(
        source=BROKERS,
        value="offsets_missing + CASE WHEN offsets_stand THEN offsets_late ELSE 0 END",
        unit="",
        words="its copy lacks {value} consumer offsets of its master, or no longer follows them",
        for_observations=2,
        words_one="its copy lacks {value} consumer offset of its master",
        hint="After a failover these groups consume again what they consumed before: the slave "
        "does not copy its master's progress, as between versions that do not fit.",
    ),
    "replica_behind": Kind(
        source=BROKERS,
        value="replica_behind_ms / 1000",
        unit="seconds",
        words="it lacks what its master got in the last {value}",
        for_observations=2,
        hint="A failover now loses these messages, and a master that waits for its slaves "
        "(SYNC_MASTER) makes producers wait: check the slave's log, disk and network.",
        recovery="it follows its master again",
    ),
    "send_wait": Kind(
        source=BROKERS,
        value="send_wait_ms / 1000",
        unit="seconds",
        words="a send waits for {value}",
        for_observations=2,
        hint="From waitTimeMillsInSendQueue on the broker refuses sends (SYSTEM_BUSY): look for "
        "a slow disk, large messages or too few sendMessageThreadPoolNums.",
        recovery="sends no longer wait",
    ),
    "failed_writes": Kind(
        source=BROKERS,
        # The counter of a broker that was started again begins at 0.
        value="CASE WHEN failed_writes_growth < 0 THEN failed_writes ELSE failed_writes_growth END",
        unit="messages",
        words="its store did not write {value}",
        certain=True,
        hint="Producers get an error for each of them: its log names the reason, such as a message "
        "above maxMessageSize or a disk that is full.",
        recovery="its store writes every message",
    ),
    "sends_refused": Kind(
        source=BROKERS,
        # As `failed_writes`; a deep snapshot compares with the one before.
        value="CASE WHEN sends_refused_growth < 0 THEN sends_refused ELSE sends_refused_growth END",
        unit="",
        words="it refused {value} sends as it was busy",
        words_one="it refused {value} send as it was busy",
        certain=True,
        hint="Producers got SYSTEM_BUSY and tried another broker or failed: look for a slow disk, "
        "a lock of the page cache held for long, or too many sends for its threads.",
        recovery="it refuses no send",
    ),
    "sends_failed": Kind(
        source=BROKERS,
        value="CASE WHEN sends_failed_growth < 0 THEN sends_failed ELSE sends_failed_growth END",
        unit="",
        words="{value} sends got an error",
        words_one="{value} send got an error",
        certain=True,
        hint="Producers got another error than SYSTEM_BUSY, such as a topic that does not exist, "
        "no permission or a message that is too large: their logs name code and topic.",
        recovery="sends get no error",
    ),
    "light_queues": Kind(
        source=BROKERS,
        value="light_queues / light_queue_limit",
        unit="share",
        words="its light queues are {value} of those it may hold",
        hint="Beyond maxLmqConsumeQueueNum it refuses messages to new lite topics: let unused ones "
        "expire earlier, or raise the limit.",
    ),
    "collection_incomplete": Kind(
        source=SNAPSHOTS,
        value=f"CASE WHEN status = '{SnapshotStatus.FAILED}' "
        "THEN greatest(coalesce(brokers_expected, 1), 1) "
        "ELSE greatest(brokers_expected - brokers_answered, cardinality(unreachable)) END",
        unit="",
        words="{value} brokers could not be read",
        for_observations=2,
        words_one="{value} broker could not be read",
        hint="A broker is down, or responds without its offsets: the snapshot's problems "
        "name what failed and why (tidemark show raw.snapshots).",
    ),
    "proxy_down": Kind(
        source=SNAPSHOTS,
        value="proxies_down",
        unit="",
        words="{value} proxies did not respond",
        words_one="{value} proxy did not respond",
        for_observations=2,
        hint="gRPC clients that are connected to it alone neither send nor receive, and which of "
        "them are online is unknown: check its process, its remoting port and its log.",
        recovery="all proxies respond",
    ),
    "collection_late": Kind(
        source=PIPELINE,
        value="",
        unit="seconds",
        words="the newest computed snapshot is {value} old",
        hint="Nothing is monitored. Check Dagster's daemon and the last runs of `tick`.",
        recovery="a new snapshot has been computed",
    ),
    "quality": Kind(
        source=PIPELINE,
        value="",
        unit="",
        words="{value} rows violate it",
        words_uncounted="the rows as a whole violate it",
        words_one="{value} row violates it",
        hint="Reported values are impossible or contradict each other: `tidemark show "
        "quality.results` has examples, `tidemark quarantine list` the quarantined rows.",
        recovery="the newest rows meet the expectation",
    ),
    "run_failed": Kind(
        source=PIPELINE,
        value="",
        unit="",
        words="{value} runs failed in a row",
        words_one="{value} run failed",
        hint="The last run in Dagster names the step and the error: mostly a full disk, too little "
        "memory, or a file or setting that cannot be read.",
        recovery="a run has succeeded",
    ),
}
"""Kind by name."""
