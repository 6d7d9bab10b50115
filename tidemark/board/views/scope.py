"""The rows that the users of a team see: those of its own groups, and of what all groups share.

Every table is declared here: rows with a consumer group or a topic are seen by these columns, the
tables in `SHARED` name no group, and a table that is neither has no rows for the users of a team.
So a new table is hidden from them until somebody decides.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from tidemark.alerting.rules.kinds import BROKERS, GROUPS, KINDS, TOPICS
from tidemark.lake.schema import STRING, Column, Table
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.rocketmq.names import OWN_TOPICS, RETRY_PREFIX
from tidemark.rocketmq.records import TABLES, Problem, Snapshot
from tidemark.settings.fields import fits_text
from tidemark.settings.owners import Owners

HIDDEN = "the text is shown to users of all groups only"
"""Stands in place of a text in which a broker or a person may name any group."""

SHARED = (raw.SNAPSHOTS, raw.BROKERS, progress.SNAPSHOTS, quality.RESULTS)
"""Tables whose rows are about clusters, brokers and Tidemark's own work, and name no group but in
the columns of `TEXTS`."""

TEXTS = {
    quality.RESULTS.name: ("expected", "problem", "sample"),
    raw.BROKERS.name: ("producers",),
}
"""Table to columns that may name any group, or clients that are of no group; they are NULL."""

DECISIVE = ("cluster", "consumer_group", "topic", "stats_key")
"""Columns that decide who sees a row; a table has some of them."""

TEAM = Column("team", STRING, "team that owns the group, by owners.yaml; NULL = none")

GROUPS_WITH_TEAM = replace(progress.GROUPS, columns=(*progress.GROUPS.columns, TEAM))
"""The columns of groups as they are shown; the table has no team."""

_S = TypeVar("_S", bound=Snapshot)


class Scope:
    """The part of all rows that a person sees.

    Attributes:
        owners: the teams of groups.
        teams: the teams of the person; None where they see everything.
    """

    def __init__(
        self,
        owners: Owners,
        teams: frozenset[str] | None = None,
        known: Callable[[], frozenset[tuple[str, str]]] = frozenset,
    ) -> None:
        """Know a person's teams.

        Args:
            owners: the teams of groups.
            teams: those of the person; None where they see everything.
            known: returns cluster and name of all groups that there are.
        """
        self.owners = owners
        self.teams = teams
        self._known = known
        self._topics: dict[tuple[str | None, str], bool] = {}

    def sees_group(self, cluster: str | None, group: str | None) -> bool:
        """Return whether the person sees a group."""
        return self.teams is None or self.owners.team_of(cluster, group) in self.teams

    def sees_topic(self, cluster: str | None, topic: str) -> bool:
        """Return whether the person sees a topic: any that does not name a group, or their own.

        The name of a POP retry topic does not show where its group ends. So it must not begin with
        the name of a group of others, unless it is the plain retry topic of a group.
        """
        if self.teams is None or not topic.startswith(OWN_TOPICS):
            return True
        key = cluster, topic
        if key not in self._topics:
            self._topics[key] = self._sees_own_topic(cluster, topic)
        return self._topics[key]

    def _sees_own_topic(self, cluster: str | None, topic: str) -> bool:
        assert self.teams is not None
        rest, known = topic[topic.index("%", 1) + 1 :], self._known()
        if (cluster, rest) in known:
            return self.sees_group(cluster, rest)
        names = [rest.partition("+")[0]]
        if topic.startswith(RETRY_PREFIX) and "+" not in rest:
            names += [rest[:place] for place, letter in enumerate(rest) if letter == "_"]
        teams = {name: self.owners.team_of(cluster, name) for name in names}
        others = set(teams.values()) - self.teams - {None}
        if others or not set(teams.values()) & self.teams:
            return False
        return all(team or (cluster or "", name) not in known for name, team in teams.items())

    def sees(self, columns: Mapping[str, Any]) -> bool:
        """Return whether the person sees what has these columns.

        A group has to be theirs; without one the topic decides, and else everybody sees it.
        """
        if self.teams is None:
            return True
        cluster, group = columns.get("cluster"), columns.get("consumer_group")
        topic, counted = columns.get("topic"), columns.get("stats_key")
        if group is not None and not self.sees_group(cluster, group):
            return False
        # Keys of counters are split into topic and group where they can be.
        if group is None and counted is not None and counted != topic:
            return False
        return topic is None or self.sees_topic(cluster, topic)

    def sees_incident(self, row: Mapping[str, Any]) -> bool:
        """Return whether the person sees an incident: of their groups, of topics, of brokers."""
        if self.teams is None:
            return True
        columns = self.columns_of_incident(row)
        group, topic = columns.get("consumer_group"), columns.get("topic")
        source = KINDS[row["kind"]].source if row["kind"] in KINDS else ""
        needs = {GROUPS: group, TOPICS: topic, BROKERS: columns.get("broker")}.get(source)
        return needs is not None and self.sees(columns)

    def columns_of_incident(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns that an incident is about, of a row of ``alerting.incidents``."""
        try:
            evidence = msgspec.json.decode(row["evidence"] or "{}")
        except msgspec.DecodeError:
            evidence = {}
        return {**evidence.get("row", {}), "cluster": row["cluster"]}

    def owns(self, match: Mapping[str, Iterable[str]]) -> bool:
        """Return whether globs are about groups of the person alone, of those that there are.

        Args:
            match: column to globs, as silences and annotations have them.
        """
        if self.teams is None:
            return True
        clusters, groups = match.get("cluster", ("*",)), match.get("consumer_group", ())
        return bool(groups) and all(self._owns(clusters, glob) for glob in groups)

    def _owns(self, clusters: Iterable[str], glob: str) -> bool:
        meant = [
            key
            for key in self._known()
            if fits_text(clusters, key[0]) and fits_text([glob], key[1])
        ]
        return bool(meant) and all(self.sees_group(*key) for key in meant)

    def sees_match(self, match: Mapping[str, Iterable[str]]) -> bool:
        """Return whether the person sees a note of people: of their groups, or of everything."""
        if self.teams is None or self.owns(match):
            return True
        topics = match.get("topic", ())
        return "consumer_group" not in match and not any(
            topic.startswith(OWN_TOPICS) for topic in topics
        )

    def rows(self, table: Table, rows: pa.Table) -> pa.Table:
        """Return the rows of a table that the person sees.

        Args:
            table: its declaration.
            rows: with the columns in `DECISIVE` that the table has.
        """
        if self.teams is None or not rows.num_rows:
            return rows
        if table.name == alerting.INCIDENTS.name:
            return rows.filter(pa.array(map(self.sees_incident, rows.to_pylist()), pa.bool_()))
        if table.name in (quality.QUARANTINE.name, quality.DECISIONS.name):
            return rows.filter(pa.array(map(self.sees_quarantined, rows["row"].to_pylist())))
        decisive = decisive_columns(table)
        if not {"consumer_group", "topic"} & set(decisive):
            return _masked(table, rows) if table in SHARED else rows.slice(0, 0)
        columns = zip(*(rows[name].to_pylist() for name in decisive), strict=True)
        is_seen = [self.sees(dict(zip(decisive, values, strict=True))) for values in columns]
        return _masked(table, rows.filter(pa.array(is_seen, pa.bool_())))

    def sees_quarantined(self, row: str) -> bool:
        """Return whether the person sees a quarantined raw row: one that names their group."""
        if self.teams is None:
            return True
        columns = msgspec.json.decode(row)
        return columns.get("consumer_group") is not None and self.sees(columns)

    def snapshot(self, snapshot: _S) -> _S:
        """Return a live snapshot with the rows that the person sees."""
        if self.teams is None:
            return snapshot
        cluster = snapshot.cluster

        def seen(rows: list[Any]) -> list[Any]:
            return [row for row in rows if self.sees(_decisive(row) | {"cluster": cluster})]

        return replace(
            snapshot,
            problems=[_without_text(problem) for problem in snapshot.problems],
            brokers=[replace(row, producers=None) for row in snapshot.brokers],
            **{name: seen(getattr(snapshot, name)) for name in TABLES if name != "brokers"},
        )

    def with_team(self, rows: pa.Table) -> pa.Table:
        """Return rows of groups with `TEAM`."""
        names = rows["cluster"].to_pylist(), rows["consumer_group"].to_pylist()
        teams = list(map(self.owners.team_of, *names))
        return rows.append_column(TEAM.name, pa.array(teams, STRING))


def decisive_columns(table: Table) -> tuple[str, ...]:
    """Return the columns of a table that decide who sees a row."""
    return tuple(name for name in DECISIVE if name in table.column_names)


def _decisive(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name, None) for name in DECISIVE}


def _masked(table: Table, rows: pa.Table) -> pa.Table:
    """Return rows without the texts that may name any group."""
    for name in TEXTS.get(table.name, ()):
        if name in rows.column_names:
            place, kind = rows.column_names.index(name), rows.schema.field(name).type
            rows = rows.set_column(place, name, pa.nulls(rows.num_rows, kind))
    if table.name == raw.SNAPSHOTS.name and "problems" in rows.column_names:
        place, kind = rows.column_names.index("problems"), rows.schema.field("problems").type
        problems = [
            None if items is None else [_hidden(item) for item in items]
            for items in rows["problems"].to_pylist()
        ]
        rows = rows.set_column(place, "problems", pa.array(problems, kind))
    return rows


def _hidden(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return a problem without its text, and without the groups that an operation names."""
    operation = (problem["operation"] or "").partition(" ")[0]
    return {**problem, "operation": operation, "message": HIDDEN}


def _without_text(problem: Problem) -> Problem:
    return replace(problem, operation=problem.operation.partition(" ")[0], message=HIDDEN)
