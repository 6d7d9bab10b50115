"""Great Expectations' Data Docs: what was found of each table, as pages that need no server."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from expectations.adapter import context_of


class Pages:
    """The pages in a folder; there is one for each table, of its last look."""

    def __init__(self, folder: Path) -> None:
        # Imported here, see `expectations.adapter`.
        from great_expectations.data_context.types.base import FilesystemStoreBackendDefaults

        self._folder = folder.resolve()
        self._context = context_of(FilesystemStoreBackendDefaults(root_directory=self._folder))

    def keep(self, suite: Any, result: Any, judged_at: datetime) -> None:
        """Keeps what Great Expectations found of a suite, for its page, instead of what it was.

        Args:
            suite: Great Expectations' suite, called as its table.
            result: its validation result.
            judged_at: when, UTC.
        """
        from great_expectations.core.run_identifier import RunIdentifier
        from great_expectations.data_context.types.resource_identifiers import (
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        old = self._folder / "uncommitted" / "validations" / Path(*suite.name.split("."))
        shutil.rmtree(old, ignore_errors=True)
        name = f"{judged_at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        run = RunIdentifier(run_name=name, run_time=judged_at)
        self._context.suites.add_or_update(suite)
        result.meta |= {"run_id": run, "expectation_suite_name": suite.name}
        key = ValidationResultIdentifier(ExpectationSuiteIdentifier(suite.name), run, "rows")
        self._context.validation_results_store.set(key, result)

    def build(self) -> Path:
        """Writes the pages of what was kept, by whichever process; the one that lists them."""
        shutil.rmtree(self._folder / "uncommitted" / "data_docs", ignore_errors=True)
        (page,) = self._context.build_data_docs().values()
        return Path(page.removeprefix("file://"))
