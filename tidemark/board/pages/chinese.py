"""The words of the pages in Chinese, columns of tables included."""

from pathlib import Path

import yaml

from tidemark.alerting.delivery.templates import CHINESE_FILE

FILES = [CHINESE_FILE, *sorted((Path(__file__).parent.parent / "templates").glob("zh*.yaml"))]

CHINESE: dict[str, str] = {
    text: words
    for file in FILES
    for text, words in yaml.safe_load(file.read_text(encoding="utf-8")).items()
}
"""English to Chinese; other texts stay in English."""
