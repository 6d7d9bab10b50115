"""Chinese texts of alert rule kinds (statement, hint, recovery) for messages and pages."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "zh_alerts.yaml"
"""Translations of texts, from English to Chinese."""


@cache
def _words() -> Mapping[str, str]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def in_chinese(text: str, **values: Any) -> str:
    """Return a text with its values in Chinese; one that is not in `FILE` stays English."""
    translated = _words().get(text, text)
    return translated.format(**values) if values else translated
