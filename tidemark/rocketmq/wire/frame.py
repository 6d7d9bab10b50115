"""Frames of the remoting protocol: requests to bytes, bytes to responses.

A frame is ``total`` (4 bytes, big-endian, the bytes after it), one byte header type, three bytes
header length, the header, the body. Requests have a JSON header, because the binary one cuts codes
above 32767. A response is decoded by its own type byte, because a 5.x broker responds in its
configured type (`RocketMQSerializable`, `NettyDecoder`).
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

MAX_FRAME_BYTES = 32 * 1024 * 1024
"""Largest frame accepted: twice the Java limit, above which RocketMQ's own tools and slaves refuse
a response (`NettyDecoder`). The first bytes of HTTP, SSH or TLS read as a length are far above."""

MAX_HEADER_BYTES = 256 * 1024
"""Longest header accepted. Brokers send less than a kilobyte, and a remark may hold a stack."""

CLIENT_VERSION = 479
"""`MQVersion` ordinal sent with requests (V5_3_3). It decides a detail of ACL signatures."""

JSON, ROCKETMQ = 0, 1
RESPONSE_FLAG = 1
_LARGEST = 2**31 - 1
_HEADERS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_FIXED = struct.Struct(">hbhiii")
_LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)


class FrameError(ValueError):
    """Bytes that are no RocketMQ frame; the message gives the reason in one line."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Frame:
    """One decoded command.

    Attributes:
        code: request or response code.
        opaque: number that ties a response to its request.
        flag: bit 0 response, bit 1 one-way request.
        remark: text for people; no error signal (``code`` is), None when absent.
        fields: ``extFields``, always text.
        body: raw bytes, empty when absent.
        version: `MQVersion` ordinal of the sender.
        language: the sender's language by name.
    """

    code: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str]
    body: bytes
    version: int = 0
    language: str = "JAVA"

    @property
    def is_response(self) -> bool:
        """Whether this is a response (a broker also sends requests of its own)."""
        return bool(self.flag & RESPONSE_FLAG)


def encode_request(
    code: int,
    opaque: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    language: str = "PYTHON",
    version: int = CLIENT_VERSION,
) -> bytes:
    """Return a whole frame with a JSON header, keys in fastjson's order.

    Args:
        code: request code.
        opaque: number that the response will carry.
        fields: ``extFields``; values are text (booleans ``true``/``false``, longs decimal).
        body: raw body.
        language: a name in `LanguageCode`.
        version: `MQVersion` ordinal.
    """
    header: dict[str, object] = {"code": code}
    if fields:
        header["extFields"] = dict(fields)
    header |= {
        "flag": 0,
        "language": language,
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    text = _HEADERS.encode(header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def take_frames(buffer: bytearray) -> list[Frame]:
    """Take every complete frame off the front of a buffer, leave the rest.

    Raises:
        FrameError: as soon as the first eight bytes of a frame, or its header, cannot be one.
    """
    frames: list[Frame] = []
    start, size = 0, len(buffer)
    while size - start >= 8:
        total = int.from_bytes(buffer[start : start + 4], "big")
        header_length = int.from_bytes(buffer[start + 5 : start + 8], "big")
        check_lengths(total, buffer[start + 4], header_length)
        end = start + 4 + total
        if end > size:
            break
        with memoryview(buffer) as view:  # one copy, not two
            content = bytes(view[start + 4 : end])
        frames.append(decode_frame(content))
        start = end
    if size - start >= 4:
        check_lengths(int.from_bytes(buffer[start : start + 4], "big"))
    del buffer[:start]
    return frames


def check_lengths(total: int, header_type: int = JSON, header_length: int = 0) -> None:
    """Refuse lengths that no RocketMQ frame has, before memory is allocated for them.

    Raises:
        FrameError: a frame above `MAX_FRAME_BYTES`, a header above `MAX_HEADER_BYTES` or beyond its
            frame, or an unknown header type.
    """
    if not 4 <= total <= MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {total} bytes (limit {MAX_FRAME_BYTES})")
    if header_type not in (JSON, ROCKETMQ):
        raise FrameError(f"header type {header_type}")
    if MAX_HEADER_BYTES < header_length <= total - 4:
        raise FrameError(f"a header of {header_length} bytes (limit {MAX_HEADER_BYTES})")
    if header_length > total - 4:
        raise FrameError(f"a header of {header_length} bytes in a frame of {total}")


def decode_frame(content: bytes) -> Frame:
    """Decode one frame without its length word.

    Raises:
        FrameError: the content is no command.
    """
    if len(content) < 4:
        raise FrameError(f"a frame of {len(content)} bytes")
    end = 4 + int.from_bytes(content[1:4], "big")
    check_lengths(len(content), content[0], end - 4)
    header, body = content[4:end], content[end:]
    try:
        return _json(header, body) if content[0] == JSON else _binary(header, body)
    except FrameError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, struct.error) as error:
        raise FrameError(f"unreadable header ({type(error).__name__})") from None


def _json(header: bytes, body: bytes) -> Frame:
    content = json.loads(header.decode())
    if type(content) is not dict:
        raise FrameError("a header that is no object")
    numbers = [content.get(name, 0) for name in ("opaque", "flag", "version")]
    code, remark, fields = content.get("code"), content.get("remark"), content.get("extFields")
    if type(code) is not int or any(type(number) is not int for number in numbers):
        raise FrameError("a header without a code")
    if any(abs(number) > _LARGEST for number in (code, *numbers)):
        raise FrameError("a header with a number beyond 32 bits")
    fields = {} if fields is None else fields
    if not isinstance(remark, str | None) or type(fields) is not dict:
        raise FrameError("a header with a remark or fields of another type")
    if b"\\u" in header:  # the only way to half a surrogate pair, which no file can hold
        json.dumps([remark, fields], ensure_ascii=False).encode()
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return Frame(
        code=code,
        opaque=numbers[0],
        flag=numbers[1],
        remark=remark,
        fields=texts,
        body=body,
        version=numbers[2],
        language=str(content.get("language", "JAVA")),
    )


def _binary(header: bytes, body: bytes) -> Frame:
    code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
    remark, at = _text(header, _FIXED.size, remark_length)
    (fields_length,) = struct.unpack_from(">i", header, at)
    at += 4
    end = at + fields_length
    if fields_length < 0 or end > len(header):
        raise FrameError("fields longer than the header")
    fields: dict[str, str] = {}
    while at < end:
        (length,) = struct.unpack_from(">h", header, at)
        name, at = _text(header, at + 2, length)
        (length,) = struct.unpack_from(">i", header, at)
        fields[name], at = _text(header, at + 4, length)
    if at != end:
        raise FrameError("a field longer than the fields")
    name = _LANGUAGES[language] if 0 <= language < len(_LANGUAGES) else "OTHER"
    return Frame(
        code=code,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        fields=fields,
        body=body,
        version=version,
        language=name,
    )


def _text(header: bytes, start: int, length: int) -> tuple[str, int]:
    end = start + length
    if length < 0 or end > len(header):
        raise FrameError("a text longer than the header")
    return header[start:end].decode(), end
