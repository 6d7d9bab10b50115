"""Incidents of a cluster that a person has removed from the settings file."""

from datetime import timedelta

from msgspec.structs import replace

from tests.support.computed_snapshots import NOON, computed
from tests.support.evaluated_minutes import evaluated, true_alert
from tests.support.notified_incidents import FIRING, RESOLVED, incident, minute
from tidemark.alerting.delivery.messages import Notification, text
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.life_cycle import advance, closed
from tidemark.alerting.incidents.repository import (
    CLUSTER_REMOVED,
    REMEMBERED_FOR,
    close_removed,
    find,
    removed_clusters,
    save,
)
from tidemark.alerting.incidents.self_monitoring import check_pipeline
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.lake.catalog import Lake


def configure(lake: Lake, *names: str) -> None:
    entries = [f"- {{name: {name}, namesrv: 10.0.0.1:9876}}\n" for name in names]
    lake.home.path.mkdir(exist_ok=True)
    (lake.home.path / "clusters.yaml").write_text("clusters:\n" + "".join(entries))


def gone(lake: Lake, number: float) -> set[str]:
    return set(removed_clusters(lake, minute(number)))


def of(cluster: str, group: str = "billing") -> Incident:
    one = incident(("FIRING", 0), group=group)
    return replace(one, incident_id=f"{cluster}-{group}", cluster=cluster)


def test_only_clusters_removed_from_the_file_count_as_removed(lake):
    assert gone(lake, 0) == set(), "without a file, nothing is known of any"
    configure(lake, "lab", "west")
    assert gone(lake, 1) == set()
    configure(lake, "west")
    assert [gone(lake, number) for number in (2, 3)] == [{"lab"}, {"lab"}]
    (lake.home.path / "clusters.yaml").write_text("clusters: [")
    assert gone(lake, 4) == set(), "a wrong file removes nothing"
    (lake.home.path / "clusters.yaml").unlink()
    assert gone(lake, 5) == set()
    configure(lake, "lab", "west")
    assert gone(lake, 6) == set(), "it is back"
    configure(lake, "west")
    assert gone(lake, 7) == {"lab"}
    assert gone(lake, 7 + REMEMBERED_FOR / timedelta(minutes=1)) == set()


def test_a_removed_cluster_resolves_its_own_incidents_only(lake):
    taken_out, pending = of("lab"), replace(of("lab", "slow"), state="PENDING", transitions=())
    others = [of("west"), replace(of("?"), cluster=None), of("by-hand")]
    save(lake, [], [taken_out, pending, *others])
    assert close_removed(lake, set(), minute(1)) == 0
    assert close_removed(lake, {"lab"}, minute(1)) == 2
    (over,) = find(lake, [taken_out.incident_id])
    assert (over.state, over.resolved_at) == ("RESOLVED", minute(1))
    assert f"Closed: {CLUSTER_REMOVED}" in text(
        Notification(incident=over, transition=over.transitions[-1])
    ).split("\n")
    assert find(lake, [pending.incident_id]) == [], "nobody knew of it"
    assert {other.state for other in find(lake, [one.incident_id for one in others])} == {"FIRING"}
    assert close_removed(lake, {"lab"}, minute(2)) == 0


def test_what_is_still_read_is_not_over(lake):
    """By a collector that has not met the new file yet, or by hand."""
    save(lake, [], [of("lab")])
    computed(lake, 1)
    assert close_removed(lake, {"lab"}, minute(5)) == 0
    assert close_removed(lake, {"lab"}, minute(7)) == 1


def test_nobody_misses_its_snapshots(lake):
    rules = load_rules(DEFAULT_RULES)
    computed(lake, 0)
    computed(lake, 9, "west")
    (late,) = check_pipeline(lake, rules, {}, minute(10), NOON).alerts
    assert late.subject == "lab"
    assert check_pipeline(lake, rules, {}, minute(10), NOON, {"lab"}).alerts == ()


def test_alerts_before_the_removal_reopen_no_incident(lake):
    over = closed(FIRING, minute(5), CLUSTER_REMOVED)
    assert over and (over.observed_at, over.details["closed"]) == (minute(5), CLUSTER_REMOVED)
    rules = {rule.name: rule for rule in load_rules(DEFAULT_RULES)}
    over = replace(over, rule="lag-high")
    again = [evaluated(number, true_alert(number, 99_999, "lag-high")) for number in (2, 3, 4)]
    assert advance([over], again, rules) == [over]
    later = [evaluated(number, true_alert(number, 99_999, "lag-high")) for number in (6, 7, 8)]
    (back,) = advance([over], later, rules)
    assert (back.state, back.reopened) == ("FIRING", 1)
    assert "closed" not in back.details
    assert (
        text(Notification(incident=RESOLVED, transition=RESOLVED.transitions[-1])).count("Closed:")
        == 0
    )
