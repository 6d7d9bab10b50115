"""The settings file of owners: the team of a group, and the line of each mistake."""

import os

import pytest

from tidemark.settings.basics import SettingsFile
from tidemark.settings.environment import Settings
from tidemark.settings.owners import Owner, Owners, WatchedOwners, read

FILE = """\
owners:
- match: {consumer_group: "orders-*"}
  team: orders
  contact: "#orders"
  links: {wiki: "https://wiki.example.com/orders"}
- match: {consumer_group: ["orders-*", "billing"], cluster: "east"}
  team: billing
- match: {cluster: "west"}
  team: west
"""


def test_without_a_file_no_group_has_a_team(tmp_path):
    assert read(tmp_path / "owners.yaml") == ([], [])
    assert Owners().of("east", "orders-1") is None


def test_a_named_file_has_to_exist(tmp_path, monkeypatch):
    missing = tmp_path / "missing.yaml"
    monkeypatch.setenv("TIDEMARK_OWNERS", str(missing))
    file = Settings.read().owners_file
    _, mistakes = read(file.path, required=file.required)
    assert mistakes == [f"{missing}: cannot be read: No such file or directory"]


@pytest.mark.parametrize(
    ("cluster", "group", "team"),
    [
        ("east", "orders-1", "orders"),
        ("east", "Orders-1", None),
        ("east", "billing", "billing"),
        ("west", "billing", "west"),
        ("west", "orders-1", "orders"),
        ("east", "billing-2", None),
        ("east", None, None),
        ("east", "", None),
        (None, "orders-1", None),
    ],
)
def test_the_first_entry_that_matches_a_group_counts(tmp_path, cluster, group, team):
    file = tmp_path / "owners.yaml"
    file.write_text(FILE)
    entries, mistakes = read(file)
    assert mistakes == []
    owners = Owners(entries)
    assert [owners.team_of(cluster, group) for _ in range(2)] == [team, team]


def test_an_owner_has_contact_and_links(tmp_path):
    file = tmp_path / "owners.yaml"
    file.write_text(FILE)
    owners = Owners(read(file)[0])
    assert owners.of("east", "orders-1") == Owner(
        team="orders", contact="#orders", links={"wiki": "https://wiki.example.com/orders"}
    )
    assert owners.of("east", "billing") == Owner(team="billing")
    assert owners.teams == {"orders", "billing", "west"}


GOOD = "match: {consumer_group: a}, team: a"


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        (GOOD.replace("match: {consumer_group: a}, ", ""), "owners[0].match: missing"),
        (GOOD.replace(", team: a", ""), "owners[0].team: missing"),
        (GOOD.replace("team: a", "team: 'a b'"), "owners[0].team: "),
        (GOOD.replace("team: a", "team: a+b"), "owners[0].team: "),
        (GOOD + ", contacts: x", "owners[0].contacts: unknown field, did you mean 'contact'?"),
        (GOOD + ", links: {wiki: 'javascript:alert(1)'}", "owners[0].links.wiki: "),
        (GOOD.replace("consumer_group: a", "topic: a"), "owners[0].match.topic: unknown field"),
        (GOOD.replace("consumer_group: a", "consumer_group: []"), "owners[0].match.consumer_group"),
    ],
)
def test_a_mistake_is_one_line_and_spares_other_entries(tmp_path, entry, mistake):
    file = tmp_path / "owners.yaml"
    file.write_text(f"owners:\n- {{{entry}}}\n- {{{GOOD.replace('team: a', 'team: b')}}}\n")
    (left,), (line,) = read(file)
    assert left.owner.team == "b"
    assert line.startswith(f"{file}:2: {mistake}")


def test_all_mistakes_of_a_file_are_stated_at_once(tmp_path):
    file = tmp_path / "owners.yaml"
    file.write_text("owners:\n- {team: 'a b', match: {group: x}}\n- {match: {}}\nowner: 1\n")
    entries, mistakes = read(file)
    assert entries == []
    assert [line.split(": ")[1] for line in mistakes] == [
        "owner",
        "owners[0].match.group",
        "owners[0].team",
        "owners[1].team",
    ]


def test_a_changed_file_counts_at_once_and_one_with_a_mistake_does_not(tmp_path):
    file = tmp_path / "owners.yaml"
    watched = WatchedOwners(SettingsFile(file))
    assert watched.now().team_of("east", "orders-1") is None
    file.write_text(FILE)
    first = watched.now()
    assert first.team_of("east", "orders-1") == "orders"
    assert watched.now() is first
    file.write_text(FILE.replace("team: orders", "team: 'or ders'"))
    os.utime(file, ns=(1, 1))
    assert watched.now() is first, "the second entry would own the groups of the first"
    assert len(watched.mistakes) == 1
    file.write_text(FILE.replace("team: orders", "team: sales"))
    assert watched.now().team_of("east", "orders-1") == "sales"
    assert watched.mistakes == []
