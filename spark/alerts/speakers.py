"""Choice of one row per group, for alert rules about numbers of the whole group.

Such numbers are repeated in the rows of all topics of the group. One alert is enough, so a rule is
evaluated on one of the rows that it applies to, the speaker.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from rocketmq.names import RETRY_PREFIX
from spark.alerts.evaluated_rule import EvaluatedRule
from spark.columns import matches, with_new

SPEAKS = "speaks_for_group"
"""Column in SQL of an alert rule: whether the row is the speaker of its group."""


def applies(rule: EvaluatedRule) -> Column:
    """Return whether a rule applies to a row."""
    excluded = [~matches(match) for match in rule.excludes]
    return reduce(lambda all_of, each: all_of & each, [*map(matches, rule.matches), *excluded])


def with_speakers(
    rows: DataFrame, rules: Sequence[EvaluatedRule]
) -> tuple[DataFrame, list[EvaluatedRule]]:
    """Add a column for each rule that names `SPEAKS`; return the rules that name it instead.

    The row of the group's retry topic speaks for it where the rule applies to that row. Else, as
    for a group that pops or a rule about some topics, the last of the topics by name does.

    Args:
        rows: those of groups.
        rules: the rules, those of one name together with their overrides.
    """
    named: dict[str, list[EvaluatedRule]] = {}
    for rule in rules:
        if SPEAKS in rule.condition:
            named.setdefault(rule.name, []).append(rule)
    columns: dict[str, Column] = {}
    column_of: dict[str, str] = {}
    shared: dict[str, str] = {}
    for name, own in named.items():
        subjects = repr([(rule.matches, rule.excludes) for rule in own])
        column_of[name] = shared.setdefault(subjects, f"{SPEAKS}_{len(shared)}")
        columns[column_of[name]] = _speaks(own)
    if not columns:
        return rows, list(rules)
    renamed = [
        replace(rule, condition=rule.condition.replace(SPEAKS, column_of[rule.name]))
        if rule.name in column_of
        else rule
        for rule in rules
    ]
    return with_new(rows, columns), renamed


def _speaks(rules: Sequence[EvaluatedRule]) -> Column:
    topic = F.col("topic")
    is_retry = topic == F.concat(F.lit(RETRY_PREFIX), F.col("consumer_group"))
    candidate = F.when(reduce(or_, map(applies, rules)), F.struct(is_retry.alias("retry"), topic))
    of_group = SparkWindow.partitionBy("snapshot_id", "consumer_group")
    return topic == F.max(candidate).over(of_group)["topic"]
