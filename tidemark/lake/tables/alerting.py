"""``alerting.*``: alerts, incidents and notifications."""

import pyarrow as pa

from tidemark.lake.schema import (
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
from tidemark.lake.tables import raw
from tidemark.model.incidents import IncidentState, Severity

RULE = Column("rule", STRING, "name of the rule")
SEVERITY = Column("severity", STRING, " | ".join(Severity))
SUBJECT = Column("subject", STRING, "cluster/group/topic")
INCIDENT_ID = Column("incident_id", STRING, "id, derived from rule, subject and opened_at")

ALERTS = Table(
    name="alerting.alerts",
    comment="One row per rule, subject and observation at which the rule is true.",
    columns=(
        raw.OBSERVED_AT,
        RULE,
        SEVERITY,
        SUBJECT,
        Column("value", DOUBLE, "value that the rule compares"),
        Column(
            "value_bound",
            STRING,
            "lower | upper: what value is of the truth; NULL = the truth itself",
        ),
        Column("threshold", DOUBLE, "threshold of the rule"),
        Column("evidence", STRING, "snapshot and row for which the rule is true, as JSON"),
    ),
    key=("observed_at", "rule", "subject"),
)

_TRANSITION = pa.struct([("transition", STRING), ("at", TIMESTAMP)])
_ACTION = pa.struct([("action", STRING), ("at", TIMESTAMP), ("author", STRING), ("reason", STRING)])

INCIDENTS = Table(
    name="alerting.incidents",
    comment="One row per incident: a rule is true of a subject, from opening to resolution.",
    columns=(
        INCIDENT_ID,
        RULE,
        SUBJECT,
        SEVERITY,
        Column("state", STRING, " | ".join(IncidentState)),
        Column("opened_at", TIMESTAMP, "first observation at which the rule was true"),
        Column("fired_at", TIMESTAMP, "when the rule had been true for as long as `for` requires"),
        Column("acknowledged_at", TIMESTAMP, "when a person acknowledged it"),
        Column(
            "resolved_at",
            TIMESTAMP,
            "when the rule had been untrue for as long as `clear_for` requires",
        ),
        Column("last_value", DOUBLE, "value at the newest observation at which the rule was true"),
        Column("last_value_bound", STRING, "lower | upper: what last_value is of the truth"),
        Column("peak_value", DOUBLE, "worst value"),
        Column("peak_value_bound", STRING, "lower | upper: what peak_value is of the truth"),
        Column("observations", BIGINT, "observations at which the rule was true"),
        raw.CLUSTER,
        Column("kind", STRING, "kind of the rule"),
        Column("threshold", DOUBLE, "threshold of the rule"),
        Column("observed_at", TIMESTAMP, "newest observation with a known result, true or untrue"),
        Column("last_true_at", TIMESTAMP, "newest observation at which the rule was true"),
        Column("streak", INT, "observations in a row towards the next state"),
        Column("streak_at", TIMESTAMP, "first observation of the streak"),
        Column("reopened", INT, "how often it reopened after it resolved"),
        Column("suppressed_by", STRING, "incident that inhibits this one"),
        Column("acknowledged_by", STRING, "who acknowledged it"),
        Column("acknowledge_reason", STRING, "why, in the words of who acknowledged it"),
        Column("resolved_by", STRING, "who resolved it by hand; NULL = its rule was untrue"),
        Column("resolve_reason", STRING, "why it was resolved by hand"),
        Column("labels", STRING_MAP, "labels of the rule when it fired"),
        Column(
            "snapshot_ids",
            STRINGS,
            "snapshots at which the rule was true: the first ones and the newest",
        ),
        Column("evidence", STRING, "newest row for which the rule was true, as JSON"),
        Column(
            "diagnosis",
            STRING,
            "what members did when it first fired: stacks of their consume threads, and with "
            "message_lookup the messages that queues were at, as JSON; NULL = not requested",
        ),
        Column(
            "transitions",
            pa.list_(_TRANSITION),
            "changes of state that are notified: FIRING, RESOLVED, ...",
        ),
        Column("written_at", TIMESTAMP, "when this row was last written, by the clock"),
        Column(
            "actions",
            pa.list_(_ACTION),
            "all that people did with it: acknowledged | resolved, when, who and why; the other "
            "columns have the last action of each kind",
        ),
    ),
    key=("incident_id",),
    instant="opened_at",
)

NOTIFICATIONS = Table(
    name="alerting.notifications",
    comment="One row per transition of an incident and channel: the state of its delivery.",
    columns=(
        INCIDENT_ID,
        Column("transition", STRING, "FIRING | RESOLVED, with _2, _3, ... after it reopened"),
        Column("channel", STRING, "name of the channel, without secrets"),
        Column("attempts", INT, "attempts to deliver it"),
        Column("delivered_at", TIMESTAMP, "when the channel accepted it; NULL = not yet"),
        Column("last_error", STRING, "why the last attempt failed, or why it is muted"),
        Column("transition_at", TIMESTAMP, "when the incident changed"),
        Column("status", STRING, "PENDING | DELIVERED | WITHHELD (resolved before it was sent)"),
        Column("next_attempt_at", TIMESTAMP, "no attempt before this instant"),
        Column(
            "first_delivered_at",
            TIMESTAMP,
            "when the channel first accepted it; `delivered_at` is of the last repeat",
        ),
        Column("repeats", INT, "how often it was delivered again while the incident fires"),
    ),
    key=("incident_id", "transition", "channel"),
    instant="transition_at",
)

ALL = (ALERTS, INCIDENTS, NOTIFICATIONS)
