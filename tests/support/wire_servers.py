"""Responses of servers that tests write by hand, frame by frame."""

import json
import struct


def respond(opaque, body=b"", *, code=0, flag=1, **header):
    text = json.dumps({"code": code, "flag": flag, "opaque": opaque} | header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


async def next_opaque(reader):
    (total,) = struct.unpack(">i", await reader.readexactly(4))
    content = await reader.readexactly(total)
    return json.loads(content[4 : 4 + int.from_bytes(content[1:4], "big")])["opaque"]
