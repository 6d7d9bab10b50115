"""Choice of one row per group, for alert rules about numbers of the whole group.

Such numbers are repeated in the rows of all topics of the group. One alert is enough, so a rule is
evaluated on one of the rows that it applies to, the speaker.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from rocketmq.names import RETRY_PREFIX
from spark.alerts.evaluated_rule import EvaluatedRule
from spark.columns import matches, with_new


def applies(rule: EvaluatedRule) -> Column:
    """Return whether a rule applies to a row."""
    excluded = [~matches(match) for match in rule.excludes]
    return reduce(lambda all_of, each: all_of & each, [*map(matches, rule.matches), *excluded])


def with_speakers(
    rows: DataFrame, rules: Sequence[EvaluatedRule]
) -> tuple[DataFrame, Mapping[str, Column]]:
    """Add columns of whether a row is the speaker of its group.

    The row of the group's retry topic speaks for it where the rule applies to that row. Else, as
    for a group that pops or a rule about some topics, the last of the topics by name does.

    Args:
        rows: those of groups.
        rules: the rules, those of one name together with their overrides.

    Returns:
        The rows, and the added column of each rule about the whole group, by the rule's name.
    """
    named: dict[str, list[EvaluatedRule]] = {}
    for rule in rules:
        if rule.about_group:
            named.setdefault(rule.name, []).append(rule)
    columns: dict[str, Column] = {}
    column_of: dict[str, str] = {}
    shared: dict[str, str] = {}
    for name, own in named.items():
        subjects = repr([(rule.matches, rule.excludes) for rule in own])
        column_of[name] = shared.setdefault(subjects, f"speaks_for_group_{len(shared)}")
        columns[column_of[name]] = _speaks(own)
    speakers = {name: F.col(column) for name, column in column_of.items()}
    return (with_new(rows, columns) if columns else rows), speakers


def _speaks(rules: Sequence[EvaluatedRule]) -> Column:
    topic = F.col("topic")
    is_retry = topic == F.concat(F.lit(RETRY_PREFIX), F.col("consumer_group"))
    candidate = F.when(reduce(or_, map(applies, rules)), F.struct(is_retry.alias("retry"), topic))
    of_group = SparkWindow.partitionBy("snapshot_id", "consumer_group")
    return topic == F.max(candidate).over(of_group)["topic"]
