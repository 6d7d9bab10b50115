"""The names of all variables that configure Tidemark, and warnings about unknown names.

Importing this costs nothing: every command warns of a name that is misspelt. A test holds the names
to the fields of `tidemark.settings.environment.Settings`.
"""

from collections.abc import Iterable

PREFIX = "TIDEMARK_"

NAMES = tuple(
    PREFIX + name
    for name in (
        "HOME",
        "NAMESRV",
        "CLUSTER",
        "CLUSTERS",
        "BROKER_NETWORKS",
        "MESSAGE_LOOKUP",
        "INCIDENT_STACKS",
        "RULES",
        "DOCS_URL",
        "BOARD_URL",
        "DAGSTER_URL",
        "HEALTH",
        "QUALITY",
        "EXPECTATIONS",
        "CAPACITY",
        "OBJECTIVES",
        "OWNERS",
        "NOTIFY_URLS",
        "DIGEST_URLS",
        "HEARTBEAT_URL",
        "DIGEST_EVERY",
        "CLIENT_CORES",
        "CLIENT_COMPUTE_MS",
        "CLIENT_USE_PERCENT",
        "CLIENT_MESSAGES",
        "RAW_DAYS",
        "PROGRESS_DAYS",
        "ALERT_DAYS",
        "RUN_MINUTES",
        "BACKFILL_HOURS",
        "RUN_HISTORY_DAYS",
        "SCHEDULE",
        "HISTORY_DAYS",
        "TIMELINE_HOURS",
        "THIN_AFTER_HOURS",
        "THINNED_MINUTES",
        "GAP_MINUTES",
        "RATE_SECONDS",
        "SAMPLE_MINUTES",
        "SPARK_REMOTE",
        "SPARK_MASTER",
        "SPARK_JARS",
        "DRIVER_HOST",
        "DRIVER_MEMORY",
        "CATALOG_TYPE",
        "CATALOG_URI",
        "CATALOG_CREDENTIAL",
        "CATALOG_TOKEN",
        "CATALOG_OAUTH2_URI",
        "CATALOG_SCOPE",
        "STATE_URI",
        "WAREHOUSE",
        "LANDING",
        "S3_ENDPOINT",
        "S3_REGION",
        "S3_PATH_STYLE",
        "METRICS_NATIVE",
        "METRICS_EXPORTER",
        "METRICS_OWN",
        "METRICS_QUEUES",
        "OTLP_ENDPOINT",
        "OTLP_HEADERS_FILE",
        "OTLP_SECONDS",
        "SERVE_TOKEN",
        "SERVE_READ_TOKEN",
        "SERVE_USERS",
        "SERVE_HEADER",
        "SERVE_PROXIES",
        "SERVE_HOSTS",
        "SERVE_ACTORS",
        "SERVE_TEAMS",
        "SERVE_MCP",
        "WEBSERVER_HOSTS",
        "DEBUG",
        "IVY_SETTINGS",
    )
)

OLD_NAMES = {f"{PREFIX}HOLE_MINUTES": f"{PREFIX}GAP_MINUTES"}
"""Old name to the new one; both work, and the new one wins."""

OF_TESTS = (f"{PREFIX}TEST_VERSION",)
"""Variables that only the tests read."""


def warnings_of(environment: Iterable[str]) -> list[str]:
    """Return a line for each variable whose name is old, or is no setting at all.

    Args:
        environment: names of variables.
    """
    entries = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in NAMES or name in OF_TESTS:
            continue
        if name in OLD_NAMES:
            entries.append(f"{name} is the old name of {OLD_NAMES[name]}")
        else:
            entries.append(f"{name} is not a setting; {_advice(name)}")
    return entries


def _advice(name: str) -> str:
    from difflib import get_close_matches

    ends = [known.removeprefix(PREFIX) for known in NAMES]
    nearest = get_close_matches(name.removeprefix(PREFIX), ends, n=1)
    return (
        f"did you mean {PREFIX}{nearest[0]}?" if nearest else "tidemark config lists all settings"
    )
