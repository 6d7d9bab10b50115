"""What is said of a failure: what explains it, in one line."""

import re

OURS = {"tidemark", "rocketmq", "lake", "spark", "alerting", "lab", "assets", "orchestration"}
"""Whose errors explain themselves; of others the kind is said too."""

LONGEST = 500

_CALL = re.compile(r"An error occurred while calling \S+\s*:?\s*")
_CAUSED = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_APPENDED = re.compile(
    r"\n\s*at |\[SQL: |\(Background on this error|JVM stacktrace:|For further information visit "
)


class DamagedError(OSError):
    """A file of ours cannot be used; the text says which, why and what to do."""


def essence(text: str) -> str:
    """A failure's text in one line, without the stack or the statement that libraries append."""
    if "Traceback (most recent call last)" in text:
        text = text.strip().splitlines()[-1]
    roots = _CAUSED.findall(text)
    if roots:
        text = roots[-1]
    line = " ".join(_APPENDED.split(_CALL.sub("", text), maxsplit=1)[0].split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
