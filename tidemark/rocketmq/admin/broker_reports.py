"""Reports of a broker on itself: its configuration and its runtime information."""

from collections.abc import Mapping

from tidemark.rocketmq.typed_values import short_text

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


_THREAD_POOLS = ("send", "pull", "query")

RUNTIME_KEYS = frozenset(
    {
        "brokerVersion",
        "commitLogDirCapacity",
        "consumeQueueDiskRatio",
        "dispatchMaxBuffer",
        "getFoundTps",
        "getMessageEntireTimeMax",
        "getMissTps",
        "getTotalTps",
        "getTransferedTps",  # 4.x
        "getTransferredTps",  # 5.x
        "msgGetTotalTodayMorning",
        "msgGetTotalTodayNow",
        "msgGetTotalYesterdayMorning",
        "msgPutTotalTodayMorning",
        "msgPutTotalTodayNow",
        "msgPutTotalYesterdayMorning",
        "pageCacheLockTimeMills",
        "putLatency99",
        "putLatency999",
        "putMessageAverageSize",
        "putMessageDistributeTime",
        "putMessageEntireTimeMax",
        "putMessageSizeTotal",
        "putMessageTimesTotal",
        "putTps",
        "remainHowManyDataToFlush",
        "remainTransientStoreBufferNumbs",
        "startAcceptSendRequestTimeStamp",
        *(f"{pool}ThreadPoolQueueCapacity" for pool in _THREAD_POOLS),
        *(f"{pool}ThreadPoolQueueHeadWaitTimeMills" for pool in _THREAD_POOLS),
        *(f"{pool}ThreadPoolQueueSize" for pool in _THREAD_POOLS),
    }
)
"""The keys that reach a snapshot."""


def kept(report: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the allow-listed keys of a report; None without a report."""
    if report is None:
        return None
    return {key: text for key, text in sorted(report.items()) if key in RUNTIME_KEYS}
