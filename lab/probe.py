"""The two questions that tell whether a cluster is up; ``rocketmq/`` asks everything else."""

import json
import re
import socket
import struct

_CLUSTER_INFO = 106
_RUNTIME_INFO = 28


def registered(namesrv: str, timeout: float = 2.0) -> set[tuple[str, int]] | None:
    """(broker, broker_id) of every broker the name server knows; None when it does not answer."""
    body = _ask(namesrv, _CLUSTER_INFO, timeout)
    if body is None:
        return None
    # Not JSON, its integer keys have no quotes; this shape is the same from 4.9 to 5.5:
    # "brokerAddrs":{0:"ip:port",1:"ip:port"},"brokerName":"broker-a"
    found = re.findall(r'"brokerAddrs":\{([^}]*)\},"brokerName":"([^"]+)"', body.decode())
    return {(name, int(key)) for ids, name in found for key in re.findall(r'"?(\d+)"?:"', ids)}


def answers(broker: str, timeout: float = 2.0) -> bool:
    """Whether the broker at this address answers GET_BROKER_RUNTIME_INFO."""
    return _ask(broker, _RUNTIME_INFO, timeout) is not None


def _ask(address: str, code: int, timeout: float) -> bytes | None:
    """Body of the answer to a request without fields; None when there is no answer of success."""
    host, _, port = address.rpartition(":")
    header = json.dumps(
        {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 0}
    ).encode()
    try:
        with socket.create_connection((host, int(port)), timeout) as connection:
            connection.sendall(struct.pack(">II", 4 + len(header), len(header)) + header)
            with connection.makefile("rb") as stream:
                total, header_length = struct.unpack(">II", stream.read(8))
                header_length &= 0xFFFFFF
                answer = json.loads(stream.read(header_length))
                body = stream.read(total - 4 - header_length)
    except (OSError, struct.error, ValueError):
        return None
    return body if answer.get("code") == 0 else None
