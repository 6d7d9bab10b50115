"""Globs on the columns that name a subject: group, topic, broker, cluster or table."""

from collections.abc import Mapping

from tidemark.settings.fields import Globs, Strict


class GroupMatch(Strict, frozen=True):
    """Condition on the groups and topics that a rule is about.

    Everything by default, ``%RETRY%`` topics too: messages that wait there for another attempt are
    waiting like any others, and the alert's subject names the topic.
    """

    cluster: Globs = ("*",)
    consumer_group: Globs = ("*",)
    topic: Globs = ("*",)


class TopicMatch(Strict, frozen=True):
    """Condition on the topics that a rule is about."""

    cluster: Globs = ("*",)
    topic: Globs = ("*",)


class BrokerMatch(Strict, frozen=True):
    """Condition on the brokers that a rule is about; by default all, masters and slaves."""

    cluster: Globs = ("*",)
    broker: Globs = ("*",)


class ClusterMatch(Strict, frozen=True):
    """Condition on the clusters that a rule is about."""

    cluster: Globs = ("*",)


class TableMatch(Strict, frozen=True):
    """Condition on the rows of ``quality.results`` that a rule is about."""

    table: Globs = ("*",)
    expectation: Globs = ("*",)


Match = Mapping[str, tuple[str, ...]]
"""Column name to globs, of which one must match."""
