"""Rows of a made-up cluster in SQL, for each table and minute.

Values follow from the pair of group and topic, and from the minute alone: a daily wave of messages,
one group that stopped consuming, one that falls behind, one with a nightly batch, one rewound.
"""

LAG = """
    CASE kind
    WHEN 'stalled' THEN CASE WHEN ago < 41 THEN base * 60 * (41 - ago) ELSE base * late END
    WHEN 'behind' THEN CASE WHEN ago < 170 THEN base * 9 * (170 - ago) ELSE base * late END
    WHEN 'batch' THEN base * late
        + base * 40 * greatest(0, 45 - abs(minute_of_day - 165)) * (0.8 + noise / 4)
    WHEN 'rewound' THEN base * late + base * 25 * CASE
        WHEN ago BETWEEN 225 AND 255 THEN ago - 225 ELSE 0 END
    WHEN 'idle' THEN 0
    ELSE base * late * (0.5 + noise) END
"""
"""Messages that a group has not consumed; `ago` counts minutes back from the end."""

RATE = "CASE WHEN kind = 'idle' THEN 0 ELSE base * wave * (0.96 + 0.08 * noise) END"

LAG_BEFORE = LAG.replace("ago", "(ago + 1)").replace("minute_of_day", "(minute_of_day - 1)")
"""The same a minute earlier, without its own noise."""

WORLD = {
    "instants": """
        SELECT {end} - ago::BIGINT AS minute, ago::BIGINT AS ago, '{cluster}' AS cluster,
            make_timestamptz(({end} - ago) * 60000000) AS observed_at,
            strftime(observed_at AT TIME ZONE 'UTC', '%Y%m%dT%H%M00000Z-') || '{cluster}'
                AS snapshot_id,
            ({end} - ago) % 1440 AS minute_of_day,
            0.55 + 0.45 * sin(2 * pi() * (minute_of_day - 480) / 1440) AS wave
        FROM range({first}, {last}) instants(ago)
        WHERE ago NOT BETWEEN 1230 AND 1275 AND (ago < 60 OR ago % {every} = 0)""",
    "topics": """
        SELECT number AS topic_number, '{entities}'.split(' ')[1 + number % {words}]
            || CASE WHEN number < {words} THEN '' ELSE '-' || number // {words} END AS topic
        FROM range({topics}) topics(number)""",
    "pairs": """
        SELECT g AS group_number, g * {per_group} + step AS pair, topic,
            '{services}'.split(' ')[1 + g % {services_count}] || '-'
                || '{purposes}'.split(' ')[1 + (g * 3) % {purposes_count}]
                || CASE WHEN g < {services_count} THEN '' ELSE '-' || g // {services_count} END
                AS consumer_group,
            35 + pair * 7919 % 380 AS base, 0.4 + pair % 7 * 0.35 AS late, 2 + g % 3 AS members,
            CASE WHEN pair = 0 THEN 'stalled' WHEN pair = {per_group} THEN 'behind'
                WHEN pair = 2 * {per_group} + 1 THEN 'unknown' WHEN pair % 11 = 5 THEN 'batch'
                WHEN pair = 3 * {per_group} THEN 'rewound' WHEN pair % 17 = 9 THEN 'idle'
                ELSE 'usual' END AS kind
        FROM range({groups}) groups(g), range({per_group}) steps(step)
        JOIN topics ON topic_number = (g * 3 + step * 5) % {topics}""",
    "observed": f"""
        SELECT *, ((pair * 31 + minute * 17 + (minute * pair) % 13) % 64) / 64.0 AS noise,
            round({LAG})::BIGINT AS unconsumed, {RATE} AS produced,
            CASE WHEN kind = 'stalled' AND ago < 41 OR kind = 'idle' THEN 0
                ELSE greatest(0, {RATE} + ({LAG_BEFORE} - ({LAG})) / 60.0) END AS consumed,
            CASE WHEN unconsumed = 0 THEN 0 WHEN kind = 'stalled' AND ago < 41
                THEN (41 - ago) * 60000 ELSE round(1000 * unconsumed / greatest(base * wave, 1))
                END::BIGINT AS late_ms
        FROM instants, pairs""",
    "queue_numbers": """
        SELECT q AS place, q // {queues} AS broker_number, (q % {queues})::INT AS queue_id,
            'broker-' || '{letters}'[1 + q // {queues}] AS broker,
            pow(q / (2.0 * {queues}), 1.4) AS low, pow((q + 1) / (2.0 * {queues}), 1.4) AS high
        FROM range(2 * {queues}) queues(q)""",
    "brokers": """
        SELECT DISTINCT broker_number AS number, broker FROM queue_numbers""",
    "newest": "SELECT * FROM instants WHERE ago % 5 = 0",
}
"""Views in the order of their making; braces hold what `bench.made_up` fills in."""

_SNAPSHOT = "snapshot_id, observed_at, cluster"
_PAIR = f"{_SNAPSHOT}, consumer_group, topic"
_KNOWN = "CASE WHEN kind <> 'unknown' OR ago > 90 THEN {} END"
_HEALTH = """
    CASE WHEN kind = 'unknown' AND ago <= 90 THEN 'UNKNOWN'
        WHEN kind = 'stalled' AND ago < 36 THEN 'STALLED'
        WHEN kind = 'behind' AND ago < 150 THEN 'FALLING_BEHIND'
        WHEN kind = 'idle' THEN 'IDLE'
        WHEN kind IN ('batch', 'rewound') AND late_ms > 60000 THEN 'CATCHING_UP' ELSE 'OK' END"""

_CHANGE = """
    'readable lag ' || unconsumed::bigint || ', was '
    || greatest(0, unconsumed - 600 * (produced - consumed))::bigint
    || ' over 10 observations (540 s)'"""


def _known(text: str, name: str) -> str:
    return f"{_KNOWN.format(text)} AS {name}"


GROUPS = f"""
    SELECT {_PAIR}, {_known("unconsumed", "lag")}, {_known("least(unconsumed, 64)", "inflight")},
        {_known("greatest(0, unconsumed - 64)", "available")}, {_known("0", "lost")},
        {_known("unconsumed", "readable_lag")}, {_known("unconsumed", "lag_upper")},
        2 * {{queues}} AS queues,
        CASE WHEN lag IS NULL THEN {{queues}} ELSE 0 END AS queues_unknown,
        0 AS queues_never_committed, lag IS NOT NULL AS complete, {_known("late_ms", "delay_ms")},
        {_known("late_ms", "lag_span_ms")}, {_known("produced", "produce_tps")},
        {_known("consumed", "consume_tps")}, consume_tps AS pull_tps,
        CASE WHEN lag = 0 THEN 0 WHEN consumed > produced * 1.01
            THEN unconsumed / (consumed - produced) END AS drain_seconds,
        CASE WHEN lag > 0 THEN 172800 - late_ms / 1000.0 END AS loss_in_seconds,
        members::INT AS clients, true AS online, 'CLUSTERING' AS message_model,
        'CONSUME_PASSIVELY' AS consume_type, 'V5_3_3' AS client_version, 0 AS retry_lag,
        CASE WHEN pair % 9 = 4 THEN 3 ELSE 0 END AS dlq_messages, {_HEALTH} AS health,
        CASE health WHEN 'STALLED' THEN 'broker-a/0: commit stays at 3000000, '
                || (unconsumed // (2 * {{queues}}))::bigint || ' unconsumed messages; and '
                || 2 * {{queues}} - 1 || ' more'
            WHEN 'FALLING_BEHIND' THEN {_CHANGE} || ', up or level in 9 of 9 steps; '
                || '60 s of production are ' || round(60 * produced)::bigint
            WHEN 'UNKNOWN' THEN {{queues}} || ' of ' || 2 * {{queues}} || ' queues unknown'
            WHEN 'IDLE' THEN
                'no lag, nothing written or consumed, over 10 observations (540 s)'
            ELSE {_CHANGE} END
            AS health_reason
    FROM observed"""

QUEUES = f"""
    SELECT {_PAIR}, broker, queue_id, 1000000 AS min_offset,
        {_known("floor(unconsumed * high) - floor(unconsumed * low)", "lag")},
        3000000 + minute * (1 + base // {{queues}}) AS max_offset,
        max_offset - lag AS consumer_offset, consumer_offset + least(lag, 8) AS pull_offset,
        least(lag, 8) AS inflight, greatest(0, lag - 8) AS available, 0 AS lost,
        lag AS readable_lag, lag AS lag_upper, CASE WHEN lag = 0 THEN 0 ELSE
            round(late_ms * (0.9 + place * 0.1 / (2.0 * {{queues}} - 1))) END AS delay_ms,
        CASE WHEN lag = 0 THEN 'exact' WHEN lag > 0 THEN 'interpolated' END AS delay_source,
        CASE WHEN lag = 0 THEN 0 WHEN lag > 0 THEN least(delay_ms, 900 + 400 * (pair % 9)) END
            AS delay_error_ms,
        produced / (2.0 * {{queues}}) AS produce_tps, consumed / (2.0 * {{queues}}) AS consume_tps,
        CASE WHEN lag > 0 THEN 172800 - delay_ms / 1000.0 END AS loss_in_seconds,
        'consume_stats' AS pull_source, 'broker' AS offset_store, 'OK' AS condition
    FROM observed, queue_numbers"""

OF_RAW = {
    "raw.brokers": f"""
        SELECT {_SNAPSHOT}, broker, 0 AS broker_id, '10.20.0.' || (11 + number) || ':10911'
                AS address, 'V5_3_3' AS version, 'ASYNC_MASTER' AS role,
            0.41 + 0.05 * number AS disk_ratio, 0 AS dispatch_behind_bytes, 48 AS retention_hours,
            observed_at - INTERVAL 61 DAY AS booted_at, 0 AS commit_log_min_offset,
            2400 * wave AS put_tps, 2300 * wave AS get_tps
        FROM instants, brokers""",
    "raw.topics": f"""
        SELECT {_SNAPSHOT}, broker, topic, {{queues}} AS read_queues, {{queues}} AS write_queues,
            6 AS perm, 'NORMAL' AS message_type, 'normal' AS kind
        FROM instants, brokers, topics""",
    "raw.queue_offsets": f"""
        SELECT {_SNAPSHOT}, broker, topic, queue_id, 1000000 AS min_offset,
            3000000 + minute * (1 + topic_number) AS max_offset,
            observed_at - INTERVAL 1 SECOND AS newest_stored_at
        FROM instants, topics, queue_numbers""",
    "raw.clients": f"""
        SELECT {_SNAPSHOT}, consumer_group, '10.20.8.' || (10 + group_number % 200) || '@'
                || member + 1 || '#' || group_number AS client_id,
            '10.20.8.' || (10 + group_number % 200) || ':' || 41000 + member AS client_address,
            'JAVA' AS language, 'V5_3_3' AS version, 'CONSUME_PASSIVELY' AS consume_type,
            'CLUSTERING' AS message_model, 'CONSUME_FROM_LAST_OFFSET' AS consume_from_where,
            20 AS thread_count, 'AVG' AS allocation_strategy
        FROM instants, (SELECT DISTINCT group_number, consumer_group, members FROM pairs),
            range(4) m(member)
        WHERE member < members""",
}
"""Queries of raw rows for the last hours only, because raw rows are kept for a few days."""

OF_GROUP = {
    "progress.assignments": f"""
        SELECT {_PAIR}, broker, queue_id, 'AVG' AS strategy, '10.20.8.'
                || (10 + group_number % 200) || '@' || (place * members) // (2 * {{queues}}) + 1
                || '#' || group_number AS expected_client_id,
            CASE WHEN kind = 'behind' AND place % 8 = 1 THEN NULL ELSE expected_client_id END
                AS actual_client_id,
            CASE WHEN actual_client_id IS NULL THEN 'UNOWNED' ELSE 'OK' END AS state
        FROM newest, pairs, queue_numbers""",
    "progress.capacity": f"""
        SELECT {_PAIR}, members::INT AS clients, members::INT AS clients_told,
            members * 20 AS threads, 20.0 AS threads_per_client, 1 AS batch_size,
            base * 0.9 AS consume_tps, base * 0.9 / members AS consume_tps_per_client,
            18.0 AS consume_rt_ms, base * 1.4 / members AS capacity_tps_per_client,
            base * 1.4 AS capacity_tps, base * 1.05 AS peak_tps,
            ceil(base * 1.05 / (base * 1.4 / members)) AS clients_needed,
            2 * {{queues}} AS queues, base * 1.4 / members * 2 * {{queues}} AS capacity_limit_tps,
            [struct_pack(clients := n::INT, drain_seconds := CASE WHEN kind = 'stalled'
                THEN 2400.0 * base / (base * 1.4 / members * n - base * 0.6) END)
                for n in range(members, members + 4)] AS drain_by_clients
        FROM newest, pairs""",
    "progress.subscriptions": f"""
        SELECT {_SNAPSHOT}, consumer_group, true AS consistent
        FROM newest, (SELECT DISTINCT consumer_group FROM pairs)""",
}
"""Queries of rows about groups for the last hour, from members' reports every five minutes."""
