"""Message templates: Jinja2 in a sandbox with access to plain values only."""

from typing import Any

from jinja2 import TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

ENVIRONMENT = ImmutableSandboxedEnvironment(autoescape=False, trim_blocks=True, lstrip_blocks=True)
"""Messages are text, so nothing is escaped; values are never read as templates."""


def checked(template: Any) -> Any:
    """Return a template as it is.

    Raises:
        ValueError: it is no Jinja2.
    """
    if isinstance(template, str):
        try:
            ENVIRONMENT.parse(template)
        except TemplateSyntaxError as error:
            raise ValueError(f"no template: {error.message} (its line {error.lineno})") from error
    return template
