"""A home made by tidemark 0.1.0 is upgraded, whichever process is killed on the way."""

import re
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest
from filelock import FileLock
from pyiceberg.catalog import load_catalog

from tests.support.homes import TIDEMARK, environment, run
from tidemark.alerting.delivery.silences import silences
from tidemark.host.leases import RUN
from tidemark.lake.catalog import NAME, Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.table_versions import (
    VERSION,
    VERSION_PROPERTY,
    OlderTablesError,
    VersionError,
    version_of,
)
from tidemark.lake.tables import TABLES, alerting, progress, raw
from tidemark.lake.upgrading import left_to_do, upgrade
from tidemark.planning.quarantine_decisions import decisions
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

MADE = Path(__file__).parents[1] / "fixtures" / "homes" / "v0.1.tar.xz"

PLACE = Path("/tmp/tidemark-home-of-v0.1")
"""Where that home was made: the metadata of its tables name their files by full path."""

NEW = {
    *(progress.PEAKS.name, progress.TOPICS.name, progress.OBJECTIVES.name),
    progress.BASELINES.name,
    *(raw.BROKER_METRICS.name, raw.TOPIC_METRICS.name),
}
"""Tables that 0.1.0 did not have."""


@pytest.fixture
def home():
    with FileLock(PLACE.with_suffix(".lock")):
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(mode=0o755)
        with tarfile.open(MADE) as made:
            made.extractall(PLACE, filter="data")
        PLACE.chmod(0o755)
        yield Home.of(PLACE)
        shutil.rmtree(PLACE)


def rows_of(home):
    """The rows of each table by its columns at 0.1.0, read without this program's declarations."""
    catalog = load_catalog(NAME, **CatalogConfig.of(home).python)
    mapping = {}
    for name in sorted(TABLES.keys() - NEW):
        table = catalog.load_table(name)
        old = COLUMNS.setdefault(name, [field.name for field in table.schema().fields])
        rows = table.scan(selected_fields=tuple(old)).to_arrow().select(old).to_pylist()
        mapping[name] = sorted(map(repr, _without_new_members(rows)))
    return mapping


COLUMNS: dict[str, list[str]] = {}


def _without_new_members(rows):
    """A member of progress.capacity has gained a field inside its list."""
    for row in rows:
        for member in row.get("members") or ():
            if isinstance(member, dict):
                member.pop("batch_size", None)
    return rows


def test_an_old_home_keeps_every_row_through_kills(home):
    before = rows_of(home)
    assert sum(map(len, before.values())) > 1500 and before["progress.queues"]
    for killed_after in (1, 2, 4, 5, 7):
        process = subprocess.Popen(
            [str(TIDEMARK), "upgrade"],
            env=environment(home) | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        for _ in range(killed_after):
            assert process.stdout.readline()
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
    versions = [version_of(table) for table in _tables(home)]
    assert 1 in versions and VERSION in versions, "it was killed on the way"
    assert run(home, ["upgrade", "--dry-run"]).stdout.count("version 1 becomes 2") == (
        versions.count(1)
    )
    done = run(home, ["upgrade"])
    assert done.returncode == 0, done.stderr
    assert {version_of(table) for table in _tables(home)} == {VERSION}
    assert rows_of(home) == before
    assert run(home, ["upgrade"]).stdout == "nothing to do\n"
    assert home.path.stat().st_mode & 0o777 == 0o700


def _tables(home):
    catalog = load_catalog(NAME, **CatalogConfig.of(home).python)
    return [catalog.load_table(name) for name in sorted(TABLES.keys() - NEW)]


def test_what_people_did_at_0_1_still_holds(home):
    lake = Lake(home)
    upgrade(lake)
    (silence,) = silences(lake.shared.state)
    assert (silence.author, silence.match) == ("eve", {"consumer_group": ("g-h*",)})
    (decision,) = decisions(lake)
    assert (decision.decision, decision.comment) == ("released", "restored from backup")
    states = lake.read(alerting.INCIDENTS, columns=("state",))["state"].to_pylist()
    assert "ACKNOWLEDGED" in states
    assert run(home, ["incidents", "list"]).stdout.count("FIRING") > 5


def test_reading_an_old_home_names_what_to_do(home):
    done = run(home, ["show", "raw.snapshots"])
    assert done.returncode == 1
    assert "is of version 1, and tidemark " in done.stderr
    assert re.search(r"run \S*tidemark upgrade", done.stderr) and "Traceback" not in done.stderr


def test_a_table_of_this_version_that_lacks_columns_names_them(lake):
    """Tables of 0.2.0 have the same version, so to name it would explain nothing."""
    with lake.table(progress.GROUPS.name).update_schema() as change:
        change.delete_column("redelivered_share")
    with pytest.raises(OlderTablesError, match=r"lacks columns .*\(redelivered_share\): run tidem"):
        Lake(lake.home).table(progress.GROUPS.name)
    assert left_to_do(lake)[-1] == "progress.groups: adds redelivered_share"
    upgrade(lake)
    assert "redelivered_share" in Lake(lake.home).table(progress.GROUPS.name).schema().column_names


def test_an_upgrade_waits_for_an_old_run(home):
    """Whose lock is the file of the lease."""
    lake, waited = Lake(home), []

    def end_of_run(holder: str) -> None:
        waited.append(holder)
        lock.release()

    lock = FileLock(home.path / f"{RUN}.lock")
    lock.acquire()
    upgrade(lake, waiting=end_of_run)
    assert len(waited) == 1
    assert left_to_do(lake) == []


def test_a_dry_run_makes_no_home(tmp_path):
    nowhere = Home.of(tmp_path / "none")
    done = run(nowhere, ["upgrade", "--dry-run"])
    assert done.returncode == 0 and f"{len(TABLES)} changes to make" in done.stdout
    assert not nowhere.path.exists()


def test_a_dry_run_names_nothing_that_an_upgrade_leaves(lake):
    lake.catalog  # noqa: B018
    lake.home.path.chmod(0o755)
    assert left_to_do(lake) == [] and upgrade(lake) == 0
    assert lake.home.path.stat().st_mode & 0o777 == 0o755


def test_newer_tables_refuse_an_older_program(lake):
    lake.catalog  # noqa: B018
    table = lake.table(raw.SNAPSHOTS.name)
    with table.transaction() as transaction:
        transaction.set_properties({VERSION_PROPERTY: "3", "tidemark.program": "0.9.0"})
    for refused in (
        lambda: Lake(lake.home).read(raw.SNAPSHOTS),
        lambda: upgrade(Lake(lake.home)),
    ):
        with pytest.raises(
            VersionError, match=r"version 3, written by tidemark 0\.9\.0; .*install"
        ):
            refused()
    done = run(lake.home, ["show", "raw.snapshots"])
    assert done.returncode == 1 and "install tidemark 0.9.0" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_upgrade_of_a_new_home_counts_what_it_creates(tmp_path):
    home = Home.of(tmp_path / "new")
    assert run(home, ["upgrade"]).stdout == f"{len(TABLES)} changes made\n"
    assert run(home, ["upgrade"]).stdout == "nothing to do\n"


def test_a_new_home_is_of_the_present_version(lake):
    assert upgrade(lake) == 0
    assert {version_of(lake.table(name)) for name in TABLES} == {VERSION}
