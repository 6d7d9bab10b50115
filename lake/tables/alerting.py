"""``alerting.*``: what people are told."""

import pyarrow as pa

from lake.schema import (
    BIGINT,
    DOUBLE,
    INT,
    STRING,
    STRING_MAP,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
)
from lake.tables import raw

RULE = Column("rule", STRING, "name of the rule")
SEVERITY = Column("severity", STRING, "critical | warning | info")
SUBJECT = Column("subject", STRING, "cluster/group/topic")
INCIDENT_ID = Column("incident_id", STRING, "follows from rule, subject and opened_at")

ALERTS = Table(
    "alerting.alerts",
    "One row per rule, subject and evaluation that is true.",
    (
        raw.OBSERVED_AT,
        RULE,
        SEVERITY,
        SUBJECT,
        Column("value", DOUBLE, "what was found"),
        Column("threshold", DOUBLE, "what the rule allows"),
        Column("evidence", STRING, "the snapshot and row that made it true, as JSON"),
    ),
    key=("observed_at", "rule", "subject"),
)

_TRANSITION = pa.struct([("transition", STRING), ("at", TIMESTAMP)])

INCIDENTS = Table(
    "alerting.incidents",
    "One row per time that a rule became true of a subject, from then until it was over.",
    (
        INCIDENT_ID,
        RULE,
        SUBJECT,
        SEVERITY,
        Column("state", STRING, "PENDING | FIRING | ACKNOWLEDGED | RESOLVED"),
        Column("opened_at", TIMESTAMP, "first observation at which it was true"),
        Column("fired_at", TIMESTAMP, "when it had been true for long enough"),
        Column("acknowledged_at", TIMESTAMP, "when somebody took it on"),
        Column("resolved_at", TIMESTAMP, "when it had been untrue for long enough"),
        Column("last_value", DOUBLE, "value at the newest observation at which it was true"),
        Column("peak_value", DOUBLE, "worst value"),
        Column("observations", BIGINT, "observations at which it was true"),
        raw.CLUSTER,
        Column("kind", STRING, "kind of the rule"),
        Column("threshold", DOUBLE, "what the rule allows"),
        Column("observed_at", TIMESTAMP, "newest observation that counted, true or not"),
        Column("last_true_at", TIMESTAMP, "newest observation at which it was true"),
        Column("streak", INT, "observations in a row that speak for the next state"),
        Column("streak_at", TIMESTAMP, "first of them"),
        Column("reopened", INT, "how often it came back after it was over"),
        Column("suppressed_by", STRING, "incident that explains this one"),
        Column("acknowledged_by", STRING, "who took it on"),
        Column("labels", STRING_MAP, "labels of the rule"),
        Column("snapshot_ids", STRINGS, "snapshots that made it true: the first ones, the newest"),
        Column("evidence", STRING, "the newest row that made it true, as JSON"),
        Column(
            "transitions", pa.list_(_TRANSITION), "what people are told of: FIRING, RESOLVED, ..."
        ),
    ),
    key=("incident_id",),
    instant="opened_at",
)

NOTIFICATIONS = Table(
    "alerting.notifications",
    "One row per transition of an incident and channel: whether it was told.",
    (
        INCIDENT_ID,
        Column("transition", STRING, "FIRING | RESOLVED, with _2 when it came back"),
        Column("channel", STRING, "name of the channel, without secrets"),
        Column("attempts", INT, "how often it was tried"),
        Column("delivered_at", TIMESTAMP, "when the channel took it; NULL = not yet"),
        Column("last_error", STRING, "why it did not at the last attempt"),
        Column("transition_at", TIMESTAMP, "when the incident changed"),
        Column("status", STRING, "PENDING | DELIVERED | WITHHELD (over before it could be told)"),
        Column("next_attempt_at", TIMESTAMP, "not tried again before"),
    ),
    key=("incident_id", "transition", "channel"),
    instant="transition_at",
)

ALL = (ALERTS, INCIDENTS, NOTIFICATIONS)
