"""Addresses of pages of Dagster that pages of the board link to."""

from dataclasses import dataclass
from urllib.parse import quote

from tidemark.lake.tables import TABLES


@dataclass(frozen=True, kw_only=True)
class Dagster:
    """The pages of Dagster's web server.

    Attributes:
        url: its public address; empty where none is known, and then all addresses are.
    """

    url: str = ""

    @property
    def runs(self) -> str:
        """The list of runs."""
        return self._page("runs")

    @property
    def daemons(self) -> str:
        """Whether daemons run."""
        return self._page("health")

    def run(self, run_id: str | None) -> str:
        """Return the page of a run."""
        return self._page(f"runs/{quote(run_id, safe='')}") if run_id else ""

    def checks(self, table: str, expectation: str = "") -> str:
        """Return the checks of a table's asset, and the one of an expectation where it has one."""
        detail = f"&checkDetail={quote(expectation, safe='')}" if expectation else ""
        return self._asset(table, f"?view=checks{detail}")

    def hours(self, table: str) -> str:
        """Return the hours of a table's asset, where a backfill of some begins."""
        return self._asset(table, "?view=partitions")

    def _asset(self, table: str, view: str) -> str:
        if table not in TABLES:
            return ""
        return self._page(f"assets/{table.replace('.', '/')}{view}")

    def _page(self, path: str) -> str:
        return f"{self.url.rstrip('/')}/{path}" if self.url else ""
