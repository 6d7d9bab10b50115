"""Great Expectations' Data Docs: one static page for the latest audit of each table."""

import html
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, PackageLoader, pass_context

from expectations.gx_suite import great_expectations_context
from tidemark.settings.yaml_documents import printable


class TextPageView(DefaultJinjaPageView):
    """The view of Great Expectations' pages: every text escaped, nothing loaded from elsewhere.

    Its own templates load styles and scripts from servers on the internet, so pages would be bare
    on a closed network, and would tell others that they are read. Ours replace those.

    Each text of a page passes through `render_content_block` or `render_string_template`, which
    are filters of its templates.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ours = PackageLoader("expectations", "templates")
        self.env.loader = ChoiceLoader([ours, *([self.env.loader] if self.env.loader else [])])

    @pass_context
    def render_content_block(
        self, jinja_context: Any, content_block: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Render a part of a page; a text on its own is one that a person or a row brings."""
        if isinstance(content_block, str):
            return escaped(content_block)
        if isinstance(content_block, list):
            content_block = [
                escaped(item) if isinstance(item, str) else item for item in content_block
            ]
        return super().render_content_block(jinja_context, content_block, *args, **kwargs)

    def render_string_template(self, template: Any) -> Any:
        """Render a sentence; its parameters are escaped by Great Expectations."""
        if isinstance(template, dict):
            template["template"] = escaped(template.get("template", ""))
        elif isinstance(template, str):
            return escaped(template)
        return super().render_string_template(template)


def escaped(text: str) -> str:
    """Return a text as HTML that shows also its control characters and marks of direction."""
    return html.escape("\n".join(printable(line) for line in text.split("\n")))


_VIEW = {"module_name": "expectations.data_docs", "class_name": "TextPageView"}
_SECTIONS = ("expectations", "validations")


class DataDocs:
    """The pages in a folder, one for the latest validation result of each table."""

    def __init__(self, folder: Path) -> None:
        # Imported here, see `expectations.gx_suite`.
        from great_expectations.data_context.types.base import FilesystemStoreBackendDefaults

        self._folder = folder.resolve()
        stores = FilesystemStoreBackendDefaults(root_directory=self._folder)
        for site in stores.data_docs_sites.values():
            site["site_section_builders"] = {section: {"view": _VIEW} for section in _SECTIONS}
            site["site_index_builder"] |= {"view": _VIEW}
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
