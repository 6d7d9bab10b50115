"""Groups that consume by POP (from 5.0 on): message by message, not queue by queue.

The pull offset that a broker reports for such a group is its commit, as `PopMessageProcessor`
tracks messages in flight elsewhere. Used as a pull offset it would show nothing in flight.
"""

from collections.abc import Mapping

from rocketmq.names import RETRY_PREFIX, is_lite_topic, version_order
from rocketmq.typed_values import object_of, short_text
from rocketmq.wire.fastjson import loads
from tidemark.model.consumption import ConsumeMode

POP_SINCE = version_order("V5_0_0")

POP, PULL = "POP", "PULL"

RequestModes = dict[tuple[str, str], str]
"""`POP` or `PULL` by (topic, group), where a user has set it."""


def decode_request_modes(body: bytes) -> RequestModes:
    """Decode a 402 body; raises the errors of decoders in `rocketmq.admin.responses`."""
    table = object_of(object_of(loads(body))["messageRequestModeMap"])
    return {
        (short_text(topic), short_text(group)): short_text(chosen["mode"])
        for topic, groups in table.items()
        for group, chosen in object_of(groups).items()
    }


def request_mode(
    topic: str, group: str, modes: Mapping[tuple[str, str], str], default: str
) -> str | None:
    """Return ``pull`` or ``pop`` as configured at a broker for a group; None without configuration.

    gRPC clients pop with any configuration. Lite topics can only be popped (`PopLiteMessage`).

    Args:
        topic: a topic.
        group: the group.
        modes: the modes that users have set.
        default: the broker's ``defaultMessageRequestMode``.
    """
    chosen = POP if is_lite_topic(topic) else modes.get((topic, group))
    if chosen is None and default == POP and not topic.startswith(RETRY_PREFIX):
        chosen = POP
    return {POP: ConsumeMode.POP, PULL: ConsumeMode.PULL}.get(chosen or "")


def is_popped(topic: str, group: str, modes: Mapping[tuple[str, str], str], default: str) -> bool:
    """Return whether a broker hands out messages of a topic to a group by POP.

    Args:
        topic: a topic, but not a POP retry topic.
        group: the group.
        modes: the modes that users have set.
        default: the broker's ``defaultMessageRequestMode``, for all but retry topics
            (`QueryAssignmentProcessor`).
    """
    otherwise = PULL if topic.startswith(RETRY_PREFIX) else default
    return is_lite_topic(topic) or modes.get((topic, group), otherwise) == POP
