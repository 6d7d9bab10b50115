"""Every generated page of the reference: its path below ``docs/`` and its text."""

from docs.generate.commands import commands_page
from docs.generate.metrics import metrics_page
from docs.generate.modules import modules_page
from docs.generate.numbers import numbers_page
from docs.generate.rules import kinds_page, rules_page
from docs.generate.settings import settings_page
from docs.generate.tables import expectations_page, tables_page


def pages() -> dict[str, str]:
    """Return path to Markdown of every page that the site adds to the written ones."""
    return {
        "reference/tables.md": tables_page(),
        "reference/numbers.md": numbers_page(),
        "reference/expectations.md": expectations_page(),
        "reference/settings.md": settings_page(),
        "reference/metrics.md": metrics_page(),
        "reference/commands.md": commands_page(),
        "reference/rule-kinds.md": kinds_page(),
        "reference/rules.md": rules_page(),
        "reference/modules.md": modules_page(),
    }
