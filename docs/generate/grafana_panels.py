"""The Grafana dashboards: their variables, rows, panels and expressions."""

from docs.generate.grafana_model import Annotation, Board, Link, Panel, Variable
from tidemark.model.health import Health

_OF_CLUSTER = Link(title="Cluster", path="tidemark-cluster", labels={"cluster": "cluster"})
_OF_GROUP = Link(
    title="Group",
    path="tidemark-group",
    labels={"cluster": "cluster", "group": "consumer_group", "topic": "topic"},
)
_QUEUES = Link(
    title="Queues",
    path="tidemark-queues",
    labels={"cluster": "cluster", "group": "consumer_group", "topic": "topic"},
)
_GROUP_ON_BOARD = Link(
    title="Group on the board",
    path="/group",
    labels={"cluster": "cluster", "group": "consumer_group", "topic": "topic"},
)
_GROUPS_ON_BOARD = Link(title="Groups on the board", path="/groups", labels={"cluster": "cluster"})
_TOPIC_ON_BOARD = Link(
    title="Topic on the board", path="/topic", labels={"cluster": "cluster", "topic": "topic"}
)


def _panel(
    title: str,
    *queries: tuple[str, str],
    unit: str = "short",
    width: int = 12,
    links: tuple[Link, ...] = (),
) -> Panel:
    return Panel(title=title, queries=queries, unit=unit, width=width, links=links)


def _number(title: str, expression: str, unit: str = "short", width: int = 4) -> Panel:
    return Panel(title=title, queries=((expression, ""),), unit=unit, kind="number", width=width)


def _table(title: str, expression: str, unit: str = "short", *, links: tuple[Link, ...]) -> Panel:
    return Panel(title=title, queries=((expression, ""),), unit=unit, kind="table", links=links)


CLUSTERS = Variable(
    name="cluster", label="Cluster", query="label_values(tidemark_snapshot_age_seconds, cluster)"
)
ONE_CLUSTER = Variable(
    name="cluster",
    label="Cluster",
    query="label_values(tidemark_snapshot_age_seconds, cluster)",
    includes_all=False,
)
GROUP = Variable(
    name="group",
    label="Group",
    query='label_values(tidemark_group_clients{cluster="$cluster"}, consumer_group)',
    includes_all=False,
)
TOPIC = Variable(
    name="topic",
    label="Topic",
    query='label_values(tidemark_group_clients{cluster="$cluster",consumer_group="$group"}, topic)',
)

_ALL = 'cluster=~"$cluster"'
_OPEN = 'state=~"FIRING|ACKNOWLEDGED"'
_CALM = "|".join((Health.OK, Health.IDLE, Health.CATCHING_UP))
_NOT_CALM = f'state!~"{_CALM}"'
_TROUBLE = f'state!~"{_CALM}|{Health.UNKNOWN}"'


def _old(selector: str, title: str) -> Annotation:
    """Return marks of the time in which no new numbers came."""
    return Annotation(
        name="Numbers are old",
        title=title,
        expression=f"tidemark_snapshot_age_seconds{{{selector}}} > 300",
        color="gray",
    )


_OLD_OF_ALL = _old(_ALL, "{{cluster}}: numbers are old")
_OLD = _old('cluster="$cluster"', "numbers are old")


def _firing(selector: str) -> Annotation:
    """Return marks of alerts of Prometheus that fire."""
    return Annotation(
        name="Alerts",
        title="{{alertname}}",
        expression=f'ALERTS{{alertstate="firing",{selector}}}',
        color="red",
    )


def _trouble(selector: str) -> Annotation:
    """Return marks of the time in which a group is in trouble or unknown."""
    return Annotation(
        name="Health",
        title="{{topic}} {{state}}",
        expression=f"tidemark_group_health{{{selector},{_NOT_CALM}}} == 1",
        color="orange",
    )


OVERVIEW = Board(
    uid="tidemark-overview",
    title="Tidemark: overview",
    description="Every cluster: how fresh, how late, what is wrong. What is unknown is not drawn.",
    variables=(CLUSTERS,),
    path="/",
    annotations=(_OLD_OF_ALL,),
    rows=(
        (
            "Now",
            (
                _number("Oldest snapshot", f"max(tidemark_snapshot_age_seconds{{{_ALL}}})", "s"),
                _number("Groups in trouble", f"sum(tidemark_group_health{{{_ALL},{_TROUBLE}}})"),
                _number("Groups unknown", f'sum(tidemark_group_health{{{_ALL},state="UNKNOWN"}})'),
                _number("Open incidents", f"sum(tidemark_incidents{{{_ALL},{_OPEN}}})"),
                _number(
                    "Unconsumed messages", f"sum(tidemark_group_readable_lag_messages{{{_ALL}}})"
                ),
                _number("Longest delay", f"max(tidemark_group_delay_seconds{{{_ALL}}})", "s"),
            ),
        ),
        (
            "Groups",
            (
                _table(
                    "Worst by delay",
                    f"topk(15, tidemark_group_delay_seconds{{{_ALL}}} > 0)",
                    "s",
                    links=(_OF_GROUP, _GROUP_ON_BOARD),
                ),
                _table(
                    "Worst by lag",
                    f"topk(15, tidemark_group_readable_lag_messages{{{_ALL}}} > 0)",
                    links=(_OF_GROUP, _GROUP_ON_BOARD),
                ),
                _panel(
                    "Groups in trouble, by cluster",
                    (
                        f"sum by (cluster, state) (tidemark_group_health{{{_ALL},{_TROUBLE}}}) > 0",
                        "{{cluster}} {{state}}",
                    ),
                    links=(_OF_CLUSTER, _GROUPS_ON_BOARD),
                ),
                _panel(
                    "Incidents",
                    (
                        f"sum by (cluster, severity, state) (tidemark_incidents{{{_ALL}}})",
                        "{{cluster}} {{severity}} {{state}}",
                    ),
                    links=(_OF_CLUSTER,),
                ),
                _panel(
                    "Unconsumed messages",
                    (
                        f"sum by (cluster) (tidemark_group_readable_lag_messages{{{_ALL}}})",
                        "{{cluster}}",
                    ),
                    links=(_OF_CLUSTER, _GROUPS_ON_BOARD),
                ),
                _panel(
                    "Messages expired before they were consumed",
                    (f"sum by (cluster) (tidemark_group_lost_messages{{{_ALL}}})", "{{cluster}}"),
                    links=(_OF_CLUSTER,),
                ),
                _panel(
                    "Groups that are unknown, by cluster",
                    (
                        f'sum by (cluster) (tidemark_group_health{{{_ALL},state="UNKNOWN"}})',
                        "{{cluster}}",
                    ),
                    links=(_OF_CLUSTER, _GROUPS_ON_BOARD),
                ),
                _panel(
                    "Groups of which only bounds are known, by cluster",
                    (
                        f"sum by (cluster) (tidemark_group_lag_is_lower_bound{{{_ALL}}})",
                        "{{cluster}} messages",
                    ),
                    (
                        f"sum by (cluster) (tidemark_group_delay_is_lower_bound{{{_ALL}}})",
                        "{{cluster}} delay",
                    ),
                    links=(_OF_CLUSTER,),
                ),
            ),
        ),
    ),
)

_G = 'cluster="$cluster",consumer_group="$group",topic=~"$topic"'

OF_GROUP = Board(
    uid="tidemark-group",
    title="Tidemark: group",
    description="One consumer group: lag, delay, rates, members and what will happen.",
    variables=(ONE_CLUSTER, GROUP, TOPIC),
    path="/group?cluster=${cluster:percentencode}&group=${group:percentencode}",
    annotations=(_trouble(_G), _firing(_G), _OLD),
    rows=(
        (
            "Progress",
            (
                _panel(
                    "Unconsumed messages",
                    (f"tidemark_group_readable_lag_messages{{{_G}}}", "{{topic}}"),
                    (f"tidemark_group_filtered_lag_messages{{{_G}}}", "{{topic}}, past its filter"),
                    links=(_QUEUES, _GROUP_ON_BOARD),
                ),
                _panel(
                    "Delay",
                    (f"tidemark_group_delay_seconds{{{_G}}}", "{{topic}}"),
                    (f"tidemark_group_ready_delay_seconds{{{_G}}}", "{{topic}}, not handed out"),
                    unit="s",
                    links=(_QUEUES, _GROUP_ON_BOARD),
                ),
                _panel(
                    "Written and confirmed",
                    (f"tidemark_group_produce_tps{{{_G}}}", "{{topic}} written"),
                    (f"tidemark_group_consume_tps{{{_G}}}", "{{topic}} confirmed"),
                    unit="cps",
                ),
                _panel(
                    "Handed out and waiting",
                    (f"rocketmq_consumer_inflight_messages{{{_G}}}", "{{topic}} in flight"),
                    (f"rocketmq_consumer_ready_messages{{{_G}}}", "{{topic}} ready"),
                ),
            ),
        ),
        (
            "State",
            (
                _panel("Health", (f"tidemark_group_health{{{_G}}} == 1", "{{topic}} {{state}}")),
                _panel("Members", (f"tidemark_group_clients{{{_G}}}", "{{topic}}")),
                _panel(
                    "Lower bounds (1): the truth is not below the number",
                    (f"tidemark_group_lag_is_lower_bound{{{_G}}}", "{{topic}} messages"),
                    (f"tidemark_group_delay_is_lower_bound{{{_G}}}", "{{topic}} delay"),
                ),
                _panel(
                    "Time until it is drained, and until messages expire",
                    (f"tidemark_group_drain_seconds{{{_G}}}", "{{topic}} drained"),
                    (f"tidemark_group_loss_in_seconds{{{_G}}}", "{{topic}} expires"),
                    unit="s",
                ),
                _panel(
                    "Retries, dead letters, expired",
                    (f"tidemark_group_retry_lag_messages{{{_G}}}", "{{topic}} to retry"),
                    (f"tidemark_group_dlq_messages{{{_G}}}", "{{topic}} dead letters"),
                    (f"tidemark_group_lost_messages{{{_G}}}", "{{topic}} expired"),
                ),
                _panel(
                    "Queues without an observation",
                    (f"tidemark_group_queues_unknown{{{_G}}}", "{{topic}}"),
                    links=(_QUEUES, _GROUP_ON_BOARD),
                ),
            ),
        ),
    ),
)

_ONE_TOPIC = Variable(name="topic", label="Topic", query=TOPIC.query, includes_all=False)
_Q = 'cluster="$cluster",consumer_group="$group",topic="$topic"'
_OF_QUEUE = "{{broker}} {{queue_id}}"

OF_QUEUES = Board(
    uid="tidemark-queues",
    title="Tidemark: queues",
    description=(
        "The queues of one group on one topic: which one stands, and who holds it."
        " They are exported where TIDEMARK_METRICS_QUEUES is on."
    ),
    variables=(ONE_CLUSTER, GROUP, _ONE_TOPIC),
    path=(
        "/group?cluster=${cluster:percentencode}&group=${group:percentencode}"
        "&topic=${topic:percentencode}"
    ),
    annotations=(_trouble(_Q), _firing(_Q), _OLD),
    rows=(
        (
            "Queues",
            (
                _table(
                    "Worst by lag",
                    f"topk(30, tidemark_queue_lag_messages{{{_Q}}})",
                    links=(_GROUP_ON_BOARD,),
                ),
                _table(
                    "Worst by delay",
                    f"topk(30, tidemark_queue_delay_seconds{{{_Q}}})",
                    "s",
                    links=(_GROUP_ON_BOARD,),
                ),
                _panel("Unconsumed messages", (f"tidemark_queue_lag_messages{{{_Q}}}", _OF_QUEUE)),
                _panel("Delay", (f"tidemark_queue_delay_seconds{{{_Q}}}", _OF_QUEUE), unit="s"),
                _panel(
                    "Confirmed by queue",
                    (
                        "sum by (broker, queue_id)"
                        f" (deriv(tidemark_queue_consumer_offset{{{_Q}}}[5m]))",
                        _OF_QUEUE,
                    ),
                    unit="cps",
                ),
                _panel(
                    "Written by queue",
                    (
                        f"sum by (broker, queue_id) (deriv(tidemark_queue_max_offset{{{_Q}}}[5m]))",
                        _OF_QUEUE,
                    ),
                    unit="cps",
                ),
                _panel(
                    "Lower bounds (1): the truth is not below the number",
                    (f"tidemark_queue_lag_is_lower_bound{{{_Q}}}", f"{_OF_QUEUE} messages"),
                    (f"tidemark_queue_delay_is_lower_bound{{{_Q}}}", f"{_OF_QUEUE} delay"),
                ),
                _panel(
                    "Messages by member",
                    (
                        f"sum by (client_id) (tidemark_queue_lag_messages{{{_Q}}})",
                        "{{client_id}}",
                    ),
                ),
            ),
        ),
    ),
)

_C = 'cluster="$cluster"'

OF_CLUSTER = Board(
    uid="tidemark-cluster",
    title="Tidemark: cluster",
    description="One cluster: its groups, rates, brokers, disks, topics.",
    variables=(ONE_CLUSTER,),
    path="/groups?cluster=${cluster:percentencode}",
    annotations=(_firing(_C), _OLD),
    rows=(
        (
            "Groups",
            (
                _table(
                    "Worst by delay",
                    f"topk(15, tidemark_group_delay_seconds{{{_C}}} > 0)",
                    "s",
                    links=(_OF_GROUP, _GROUP_ON_BOARD),
                ),
                _table(
                    "In trouble or unknown",
                    f"tidemark_group_health{{{_C},{_NOT_CALM}}} == 1",
                    links=(_OF_GROUP, _GROUP_ON_BOARD),
                ),
                _panel(
                    "Groups by health",
                    (f"sum by (state) (tidemark_group_health{{{_C}}})", "{{state}}"),
                ),
                _panel(
                    "Members",
                    (
                        f"sum by (language, version) (rocketmq_consumer_connections{{{_C}}})",
                        "{{language}} {{version}}",
                    ),
                ),
            ),
        ),
        (
            "Traffic",
            (
                _panel(
                    "Written and handed out",
                    (f"sum(rocketmq_broker_tps{{{_C}}})", "written"),
                    (f"sum(rocketmq_broker_qps{{{_C}}})", "handed out"),
                    unit="cps",
                ),
                _panel(
                    "Busiest topics",
                    (
                        f"topk(10, sum by (cluster, topic) (rocketmq_producer_tps{{{_C}}}))",
                        "{{topic}}",
                    ),
                    unit="cps",
                    links=(_TOPIC_ON_BOARD,),
                ),
                _panel(
                    "Written by broker", (f"rocketmq_broker_tps{{{_C}}}", "{{broker}}"), unit="cps"
                ),
                _panel(
                    "Bytes handed out",
                    (
                        f"topk(10, sum by (group) (rocketmq_consumer_message_size{{{_C}}}))",
                        "{{group}}",
                    ),
                    unit="Bps",
                ),
            ),
        ),
        (
            "Brokers",
            (
                _panel(
                    "Disk in use",
                    (f"rocketmq_brokeruntime_commitlog_disk_ratio{{{_C}}}", "{{brokerIP}}"),
                    unit="percentunit",
                ),
                _panel(
                    "Not yet in the consume queues",
                    (f"rocketmq_brokeruntime_dispatch_behind_bytes{{{_C}}}", "{{brokerIP}}"),
                    unit="bytes",
                ),
                _panel(
                    "Slaves behind their master",
                    (f"rocketmq_broker_commitlog_diff{{{_C}}}", "{{brokerIP}}"),
                    unit="bytes",
                ),
                _panel(
                    "Wait of the first request",
                    (
                        f"rocketmq_brokeruntime_send_threadpoolqueue_headwait_timemills{{{_C}}}",
                        "{{brokerIP}} send",
                    ),
                    (
                        f"rocketmq_brokeruntime_pull_threadpoolqueue_headwait_timemills{{{_C}}}",
                        "{{brokerIP}} pull",
                    ),
                    unit="ms",
                ),
            ),
        ),
    ),
)

ITSELF = Board(
    uid="tidemark-itself",
    title="Tidemark: itself",
    description="Whether Tidemark collects, computes and delivers.",
    variables=(CLUSTERS,),
    path="/quality",
    annotations=(_OLD_OF_ALL,),
    rows=(
        (
            "Collection",
            (
                _panel(
                    "Age of the newest snapshot",
                    (f"tidemark_snapshot_age_seconds{{{_ALL}}}", "{{cluster}}"),
                    unit="s",
                ),
                _panel(
                    "Duration of a snapshot",
                    (f"tidemark_collect_duration_seconds{{{_ALL}}}", "{{cluster}}"),
                    unit="s",
                ),
                _panel(
                    "Problems of collection",
                    (f"increase(tidemark_collect_problems_total{{{_ALL}}}[15m])", "{{cluster}}"),
                ),
                _panel(
                    "From the start of a snapshot to its numbers",
                    ("tidemark_tick_duration_seconds", "tick"),
                    unit="s",
                ),
            ),
        ),
        (
            "Delivery and tables",
            (
                _panel(
                    "Notifications",
                    (
                        "increase(tidemark_notifications_total[15m])",
                        "{{channel}} {{outcome}}",
                    ),
                ),
                _panel("Rows", ("topk(10, tidemark_rows)", "{{table}}")),
                _number("Version", "tidemark_build_info", width=24),
            ),
        ),
    ),
)

DASHBOARDS = (OVERVIEW, OF_CLUSTER, OF_GROUP, OF_QUEUES, ITSELF)
