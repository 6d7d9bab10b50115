"""`tidemark audit` prints what people did."""

import json
from datetime import UTC, datetime

from tests.support.commands import output_of
from tidemark.alerting.annotations import annotate
from tidemark.alerting.recorded_actions import Action, RefusalCounter, record
from tidemark.lake.catalog import Lake
from tidemark.model.incidents import ActionKind


def test_actions_are_listed_and_filtered(lake: Lake) -> None:
    now = datetime.now(UTC)
    assert "Nobody did anything" in output_of(lake.home, "audit")
    annotate(lake.shared, "failover", "ann", now, {"consumer_group": ("billing",)})
    record(
        lake.shared,
        Action(at=now, author="bob", action=ActionKind.DIAGNOSED, cluster="c",
               consumer_group="mailer", topic="mails"),
    )  # fmt: skip
    refusals = RefusalCounter(lake.shared)
    for _ in range(3):
        refusals.count("10.0.0.9", "GET /groups", 401, now)
    refusals.write()
    text = output_of(lake.home, "audit")
    assert "mailer mails" in text and "failover" in text and "10.0.0.9" not in text
    rows = json.loads(output_of(lake.home, "audit", "--format", "json"))
    assert {row["author"] for row in rows} == {"ann", "bob"}
    (row,) = json.loads(output_of(lake.home, "audit", "--group", "mailer", "--format", "json"))
    assert (row["author"], row["action"], row["cluster"]) == ("bob", "diagnosed", "c")
    assert "1 more: --limit 2" in output_of(lake.home, "audit", "--limit", "1")
    refused = output_of(lake.home, "audit", "--action", "refused", "--person", "10.0.0.9")
    assert "GET /groups" in refused and "401" in refused and " 3" in refused
    assert "Nobody did anything" in output_of(lake.home, "audit", "--person", "eve")
    assert "refused" in output_of(lake.home, "audit", "--action", "fired", code=2)
