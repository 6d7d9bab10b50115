"""The resource of the tables in a run: the run names itself, and only one changes tables."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event

import dagster as dg
import pytest
from filelock import FileLock, Timeout

from assets.dagster_names import LONGEST_TAG, longest_time_tag, process_of
from assets.partitions import PENDING, TABLES_POOL, range_tags
from assets.resources import LakeResource, free_slots
from orchestration.resources import resources
from tidemark.host.leases import RUN, FileLeases
from tidemark.host.processes import identity
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

NOW = floor_hour(datetime.now(UTC))


def run_of(tmp_path, body, minutes=7, **tags):
    """A run of one step that has the resource, as Dagster has recorded it."""

    @dg.op
    def step(lake: LakeResource) -> None:
        body(lake)

    @dg.job(resource_defs={"lake": LakeResource(home=str(tmp_path), run_minutes=minutes)})
    def job() -> None:
        step()

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, tags=tags)
        return instance.get_run_by_id(result.run_id)


def is_leased(tmp_path) -> bool:
    """Whether a run changes the tables of a home."""
    try:
        with FileLock(tmp_path / "run.lock", timeout=0):
            return False
    except Timeout:
        return True


def test_every_run_names_its_process_and_longest_time(tmp_path):
    run = run_of(tmp_path, lambda lake: None)
    assert process_of(run.run_id, run.tags) == identity()
    assert run.tags[LONGEST_TAG] == "420"


def test_a_longest_time_given_by_a_person_stays(tmp_path):
    run = run_of(tmp_path, lambda lake: None, **{LONGEST_TAG: "60"})
    assert run.tags[LONGEST_TAG] == "60"


@pytest.mark.parametrize(("hours", "days"), [(1, 1), (24, 1), (25, 2), (24 * 7, 7)])
def test_a_recomputation_has_the_longest_time_for_each_day(hours, days):
    tags = range_tags(Window(NOW - hours * HOUR, NOW))
    assert longest_time_tag(tags, timedelta(minutes=1)) == {LONGEST_TAG: str(days * 60)}
    assert longest_time_tag(PENDING, timedelta(minutes=1)) == {LONGEST_TAG: "60"}


def test_a_run_takes_the_lease_when_it_requests_it(tmp_path):
    seen = []

    def body(lake: LakeResource) -> None:
        seen.append(is_leased(tmp_path))
        lake.alone()
        lake.alone()
        seen.append(is_leased(tmp_path))

    run_of(tmp_path, body)
    assert [*seen, is_leased(tmp_path)] == [False, True, False]


def test_a_run_that_waits_keeps_no_slot(tmp_path):
    """Where a pool counts steps, the run with the lease needs the slot for its next step."""
    home, holds, begins = Home.of(tmp_path / "home"), Event(), Event()

    @dg.op
    def step(context: dg.OpExecutionContext, lake: LakeResource) -> None:
        # As every executor does but that of tests.
        assert claimed(context.run_id, "step")
        begins.set()
        lake.alone()

    @dg.job(
        resource_defs={"lake": LakeResource(home=str(home.path), run_minutes=1)},
    )
    def job() -> None:
        step()

    def claimed(run_id: str, key: str) -> bool:
        claim = instance.event_log_storage.claim_concurrency_slot
        return claim(TABLES_POOL, run_id, key).is_claimed

    def next_step() -> bool:
        """Claim the slot while the other run waits, as the next step of this run does."""
        with FileLeases(home).acquire(RUN):
            holds.set()
            assert begins.wait(30)
            deadline = time.monotonic() + 30
            while not (result := claimed("holder", "next")) and time.monotonic() < deadline:
                time.sleep(0.05)
        return result

    with (
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
        ThreadPoolExecutor(1) as other,
    ):
        instance.event_log_storage.set_concurrency_slots(TABLES_POOL, 1)
        of_holder = other.submit(next_step)
        assert holds.wait(30)
        assert job.execute_in_process(instance=instance).success
        assert of_holder.result()


def test_a_step_that_began_to_wait_while_a_slot_was_freed_gets_it(tmp_path):
    """Dagster counts the free slots before it notes that the step waits."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots(TABLES_POOL, 1)
        storage.add_pending_step(TABLES_POOL, "holder", "next", should_assign=False)
        assert not storage.claim_concurrency_slot(TABLES_POOL, "holder", "next").is_claimed
        free_slots(instance, "waits")
        assert storage.claim_concurrency_slot(TABLES_POOL, "holder", "next").is_claimed
        free_slots(instance, "waits")
        (waiting,) = storage.get_concurrency_info(TABLES_POOL).pending_steps
        assert waiting.run_id == "holder"


def test_the_longest_time_is_a_setting(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEMARK_RUN_MINUTES", "30")
    settings = Settings.read().model_copy(update={"home": Home.of(tmp_path)})
    with dg.build_resources({"lake": resources(settings)["lake"]}) as built:
        assert built.lake.run_minutes == 30
