"""Where samples are sent by OTLP: the address, the headers, and how often."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tidemark.settings.errors import SettingsError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def fault_of_endpoint(endpoint: str) -> str:
    """Return why samples cannot be sent to an address; empty where they can."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it takes http://HOST:4318 or https://HOST/PATH"
    if "@" in parts.netloc or parts.query:
        return "logins and tokens belong into the file of TIDEMARK_OTLP_HEADERS_FILE"
    return ""


@dataclass(frozen=True, kw_only=True)
class OtlpSettings:
    """Where samples are sent by OTLP.

    Attributes:
        endpoint: address of the collector.
        headers_file: file with a header a line, ``NAME: VALUE``; None without headers.
        seconds: from one export to the next.
    """

    endpoint: str
    headers_file: Path | None = None
    seconds: int

    def headers(self) -> dict[str, str]:
        """Return the headers as the file has them now.

        Raises:
            SettingsError: the file cannot be read, or a line is no header. No value is shown.
        """
        if self.headers_file is None:
            return {}
        where = f"TIDEMARK_OTLP_HEADERS_FILE={self.headers_file}"
        try:
            lines = self.headers_file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingsError([f"{where}: {reason}"]) from error
        headers: dict[str, str] = {}
        mistakes: list[str] = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, value = (part.strip() for part in line.partition(":"))
            if _NAME.fullmatch(name) and value and value.isprintable() and value.isascii():
                headers[name] = value
            else:
                mistakes.append(f"{where}, line {number}: NAME: VALUE is wanted")
        if mistakes:
            raise SettingsError(mistakes)
        return headers
