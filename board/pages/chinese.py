"""The words of the pages in Chinese, columns of tables included."""

from pathlib import Path

import yaml

CHINESE: dict[str, str] = yaml.safe_load(
    (Path(__file__).parent.parent / "templates" / "zh.yaml").read_text(encoding="utf-8")
)
"""English to Chinese; what is not here stays as it is."""
