"""A broker's configuration (26), of which only what is listed here is kept.

Everything else is dropped while reading: a deployment may have passwords and keys in it.
"""

CONFIG_KEYS = frozenset(
    {
        "brokerClusterName",
        "brokerName",
        "brokerId",
        "brokerRole",
        "fileReservedTime",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "slaveReadEnable",
        "accessMessageInMemoryMaxRatio",
        "messageDelayLevel",
        "enableDetailStat",
        "storeType",
        "enableConsumeQueueExt",
        "enableRetryTopicV2",
        "useServerSideResetOffset",
        "estimateAccumulation",
        "metricsExporterType",
        "metricsPromExporterPort",
        "flushConsumerOffsetInterval",
        "defaultMessageRequestMode",
    }
)
"""What is kept."""


def decode_broker_config(body: bytes) -> dict[str, str]:
    """Decode a 26 body, Java properties; what is not in `CONFIG_KEYS` is not kept."""
    entries = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return {key.strip(): value.strip() for key, _, value in entries if key.strip() in CONFIG_KEYS}
