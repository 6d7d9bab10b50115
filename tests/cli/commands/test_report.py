"""`tidemark report` prints a week, and sends it to the receivers of the rule files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.support.board_home import group, rows_of
from tests.support.commands import output_of
from tests.support.notification_servers import serve
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Week
from tidemark.lake.tables import progress

LAST = Week.of(datetime.now(UTC), ZoneInfo("UTC")).before


def observe(lake: Lake) -> None:
    at = LAST.window.start + HOUR
    lake.append(progress.SNAPSHOTS, rows_of(progress.SNAPSHOTS, at, [{}]))
    rows = [group("mailer", health="STALLED", delay_ms=9_000)]
    lake.append(progress.GROUPS, rows_of(progress.GROUPS, at, rows))


def test_the_last_week_is_printed(lake: Lake) -> None:
    observe(lake)
    text = output_of(lake.home, "report")
    assert f"Tidemark {LAST.name}: objectives missed: 0, undecided: 0; groups in" in text
    assert "shop/mailer/orders: ≥ 5 m in trouble, longest STALLED, delay up to ≥ 9 s" in text
    chinese = output_of(lake.home, "report", "--week", LAST.name, "--language", "zh")
    assert "消费组" in chinese and "Groups" not in chinese
    document = json.loads(output_of(lake.home, "report", "--format", "json"))
    assert document["groups"][0]["trouble_seconds"] == 300
    assert document["groups"][0]["trouble_bound"] == "lower"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--week", "47"], "a week is wanted, e.g. 2026-W47"),
        (["--week", "2099-W01"], "2099-W01 has not begun"),
        (["--location", "Mars"], "'Mars' is no time zone"),
        (["--language", "fr"], "en or zh is wanted"),
        (["--send", "--team", "a"], "those of `reports:`"),
    ],
)
def test_bad_usage_is_one_line(lake: Lake, options: list[str], words: str) -> None:
    text = output_of(lake.home, "report", *options, code=2)
    assert words in " ".join(text.replace("│", " ").split())


def test_it_is_sent_as_the_rule_files_say(lake: Lake, tmp_path: Path) -> None:
    observe(lake)
    file = tmp_path / "routes.yaml"
    with serve() as hook:
        file.write_text(
            f"""\
receivers:
  - {{name: chat, webhook: ["{hook.http}"]}}
reports:
  - {{receiver: chat, at: monday 09:00}}
"""
        )
        rules = str(file)
        assert "sent to chat" in output_of(lake.home, "report", "--send", TIDEMARK_RULES=rules)
        hook.status = 503
        refused = output_of(lake.home, "report", "--send", code=1, TIDEMARK_RULES=rules)
        assert "refused: HTTP 503" in refused and "t0ken" not in refused
    assert [document["report"]["week"] for document in hook.received] == [LAST.name]
    file.write_text("rules: []\n")
    assert "have no `reports:`" in output_of(
        lake.home, "report", "--send", code=1, TIDEMARK_RULES=rules
    )
