"""Great Expectations' Data Docs: one static page for the latest audit of each table."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from expectations.gx_context import great_expectations_context

_VIEW = {"module_name": "expectations.data_docs_view", "class_name": "TextPageView"}
_SECTIONS = ("expectations", "validations")


class DataDocs:
    """The pages in a folder, one for the latest validation result of each table."""

    def __init__(self, folder: Path) -> None:
        # Imported here, see `expectations.gx_context`.
        from great_expectations.data_context.types.base import FilesystemStoreBackendDefaults

        self._folder = folder.resolve()
        stores = FilesystemStoreBackendDefaults(root_directory=self._folder)
        for site in stores.data_docs_sites.values():
            site["site_section_builders"] = {section: {"view": _VIEW} for section in _SECTIONS}
        self._context = great_expectations_context(stores)

    def keep(self, suite: Any, result: Any, validated_at: datetime) -> None:
        """Store a suite's validation result for its page, in place of the one before.

        A result without any evaluated expectation gets no page.

        Args:
            suite: Great Expectations' suite, named as its table.
            result: its validation result.
            validated_at: when, UTC.
        """
        from great_expectations.core.run_identifier import RunIdentifier
        from great_expectations.data_context.types.resource_identifiers import (
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        self.remove(suite.name)
        name = f"{validated_at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        run = RunIdentifier(run_name=name, run_time=validated_at)
        self._context.suites.add_or_update(suite)
        if not result.results:
            return
        result.meta |= {"run_id": run, "expectation_suite_name": suite.name}
        key = ValidationResultIdentifier(ExpectationSuiteIdentifier(suite.name), run, "rows")
        self._context.validation_results_store.set(key, result)

    def remove(self, table: str) -> None:
        """Remove the stored validation result of a table."""
        old = self._folder / "uncommitted" / "validations" / Path(*table.split("."))
        shutil.rmtree(old, ignore_errors=True)

    def build(self) -> Path:
        """Write the pages of all stored results and return the index page.

        Another process may have stored them.
        """
        shutil.rmtree(self._folder / "uncommitted" / "data_docs", ignore_errors=True)
        (page,) = self._context.build_data_docs().values()
        return Path(page.removeprefix("file://"))
