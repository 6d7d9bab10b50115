"""Pages of Data Docs that show names and values as text, never as markup.

Importing this module imports Great Expectations (4-5 s); Great Expectations does it when it builds
Data Docs. Its own view escapes the parameters of a sentence, but neither the cells of a table, nor
the text of a description or of an exception, nor the data of a graph. Topics, groups and clients
may have any name.
"""

import html
import json
from typing import Any

from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import pass_context

from settings.yaml_documents import printable


class TextPageView(DefaultJinjaPageView):
    """The view of Great Expectations' pages, with every text escaped.

    Each text of a page passes through `render_content_block` or `render_string_template`, which
    are filters of its templates.
    """

    @pass_context
    def render_content_block(
        self, jinja_context: Any, content_block: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Render a part of a page; a text on its own is one that a person or a row brings."""
        if isinstance(content_block, str):
            return escaped(content_block)
        if isinstance(content_block, list):
            content_block = [
                escaped(each) if isinstance(each, str) else each for each in content_block
            ]
        elif isinstance(content_block, dict) and isinstance(content_block.get("graph"), dict):
            # The template writes it into a script. "<" could end that.
            graph = json.dumps(content_block["graph"], default=str).replace("<", "\\u003c")
            content_block = {**content_block, "graph": graph}
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
