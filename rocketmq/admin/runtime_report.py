"""A broker's runtime report (28), limited to an allow-list of keys.

Other keys name folders of the broker's host, or have a column of their own in `Broker`.
"""

from collections.abc import Mapping

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
