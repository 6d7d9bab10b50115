"""Groups that brokers hand messages to one by one, not queue by queue: POP, from 5.0 on.

What a broker tells as such a group's pull offset is its commit (`PopMessageProcessor` keeps another
account of what is handed out), so nothing would ever seem to be in flight.
"""

from collections.abc import Mapping

from rocketmq.fastjson import loads
from rocketmq.names import RETRY_PREFIX, version_order
from rocketmq.typed import object_of, text

POP_SINCE = version_order("V5_0_0")

POP, PULL = "POP", "PULL"

RequestModes = dict[tuple[str, str], str]
"""By (topic, group), `POP` or `PULL`, where somebody has chosen."""


def decode_request_modes(body: bytes) -> RequestModes:
    """Decode a 402 body; raises what decoders of `rocketmq.answers` raise."""
    table = object_of(object_of(loads(body))["messageRequestModeMap"])
    return {
        (text(topic), text(group)): text(chosen["mode"])
        for topic, groups in table.items()
        for group, chosen in object_of(groups).items()
    }


def is_popped(topic: str, group: str, modes: Mapping[tuple[str, str], str], default: str) -> bool:
    """Whether a broker hands out messages of a topic to a group by POP.

    Args:
        topic: a topic, but none of those that POP itself keeps for what was not acknowledged.
        group: the group.
        modes: what was chosen.
        default: the broker's ``defaultMessageRequestMode``, for all but retry topics
            (`QueryAssignmentProcessor`).
    """
    otherwise = PULL if topic.startswith(RETRY_PREFIX) else default
    return modes.get((topic, group), otherwise) == POP
