"""A broker's configuration (26), limited to an allow-list of keys.

All other keys are dropped while decoding: a deployment may have passwords in its configuration.
"""

from rocketmq.typed_values import short_text

CONFIG_KEYS = frozenset(
    {
        "brokerClusterName",
        "brokerName",
        "brokerId",
        "brokerRole",
        "fileReservedTime",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "cleanFileForciblyEnable",
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
        "flushDiskType",
        "defaultMessageRequestMode",
        "popConsumerKVServiceEnable",
        "priorityOrderAsc",
        "messageStorePlugIn",
        "tieredStorageLevel",
        "tieredStoreFileReservedTime",
    }
)
"""The keys that reach a snapshot."""


def decode_broker_config(body: bytes) -> dict[str, str]:
    """Decode a 26 body (Java properties); keys outside `CONFIG_KEYS` are dropped.

    Values are as written: before 5.0 a space at the end of a line of ``broker.conf`` is part of the
    name that the broker registers (`MixAll.properties2Object`).
    """
    entries = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return {key: short_text(value) for key, _, value in entries if key in CONFIG_KEYS}
