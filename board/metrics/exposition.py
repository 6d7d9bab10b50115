"""The text of ``/metrics``: small sources by prometheus_client, large ones line by line.

prometheus_client takes 8 µs for each sample: 20,000 groups would take seconds for each scrape.
The sources that change only with a table are written once for each change, with one text of
labels for all metrics of a row, and kept compressed. The compressed halves join to one gzip
stream: some clients read only the first of several.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from board.metrics.samples import SourceRows

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

LEVEL = 1
"""The cheapest level of compression; labels repeat so much that it leaves a tenth."""

_GZIP = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"  # deflate, no name, no time, fastest, any system


class Page(NamedTuple):
    """One response to a scrape.

    Attributes:
        content_type: media type, as the client requested.
        encoding: ``gzip``, or empty.
        body: the text, compressed or not.
    """

    content_type: str
    encoding: str
    body: bytes


class _Families(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        yield from self._families


class Lines:
    """The lines of gauges, the same in both formats, kept as they are sent: compressed."""

    def __init__(self, rows: Iterable[SourceRows] = ()) -> None:
        """Write the lines of the rows, never all of them at once."""
        compressor = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
        self._crc = zlib.crc32(b"")
        self._length = 0
        parts = []
        for lines in _lines(rows):
            text = lines.encode()
            self._crc = zlib.crc32(text, self._crc)
            self._length += len(text)
            parts.append(compressor.compress(text))
        # A full flush ends at a byte, and no byte after it refers to one before.
        parts.append(compressor.flush(zlib.Z_FULL_FLUSH))
        self._deflated = b"".join(parts)

    @property
    def text(self) -> bytes:
        """The lines; few clients take them uncompressed."""
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(self._deflated)

    def gzip_with(self, rest: bytes) -> bytes:
        """Return these lines and the lines after them as one gzip stream."""
        compressor = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
        deflated = compressor.compress(rest) + compressor.flush()
        length = (self._length + len(rest)) % 2**32
        end = struct.pack("<II", zlib.crc32(rest, self._crc), length)
        return b"".join((_GZIP, self._deflated, deflated, end))


def page(kept: Lines, few: Iterable[Family], accept: str, accept_encoding: str) -> Page:
    """Return the page in the format and encoding that a client accepts.

    Args:
        kept: the lines of large sources.
        few: metric families of small sources.
        accept: the header ``Accept``: OpenMetrics where it names that, else Prometheus text.
        accept_encoding: the header ``Accept-Encoding``.
    """
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(few))
    rest: bytes = encode(registry)
    if "gzip" in accept_encoding:
        return Page(content_type, "gzip", kept.gzip_with(rest))
    return Page(content_type, "", kept.text + rest)


def _lines(rows: Iterable[SourceRows]) -> Iterator[str]:
    for source in rows:
        labels = _label_texts(source)
        for metric, values in source.values:
            name = metric.name
            yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
            yield "".join(
                f"{name}{label} {value}\n"
                for label, value in zip(labels, values, strict=True)
                if value is not None
            )


def _label_texts(source: SourceRows) -> list[str]:
    columns = [
        _escaped(label, texts)
        for label, texts in zip(source.labels, source.label_texts, strict=True)
    ]
    return [f"{{{','.join(row)}}}" for row in zip(*columns, strict=True)]


def _escaped(label: str, texts: list[str]) -> list[str]:
    written = {text: f'{label}="{text.translate(_ESCAPES)}"' for text in set(texts)}
    return [written[text] for text in texts]
