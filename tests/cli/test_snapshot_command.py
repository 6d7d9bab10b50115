"""Output of a command about a cluster of which nothing could be read."""

import pytest

from tests.support.homes import run
from tidemark.settings.home import Home


@pytest.mark.slow
def test_the_remedy_can_be_pasted_into_a_shell(tmp_path):
    servers = "127.0.0.1:1;127.0.0.1:2"
    done = run(Home.of(tmp_path / "home"), ["lag", "--namesrv", servers])
    assert done.returncode == 1
    assert done.stderr.endswith(f"tidemark doctor --namesrv '{servers}'\n")


TWO_AT_ONE_ADDRESS = """\
clusters:
- {name: orders, namesrv: "127.0.0.1:1", cluster: one}
- {name: billing, namesrv: "127.0.0.1:1", cluster: two}
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["snapshot", "lag"])
def test_an_address_is_enough_where_several_clusters_have_it(tmp_path, command):
    """All brokers there are meant, whatever the clusters of the settings file are."""
    home = Home.of(tmp_path / "home")
    home.path.mkdir(parents=True)
    (home.path / "clusters.yaml").write_text(TWO_AT_ONE_ADDRESS)
    done = run(home, [command, "--namesrv", "127.0.0.1:1"])
    assert done.returncode == 1 and "connection refused" in done.stderr
    done = run(home, [command])
    assert done.returncode == 2 and "Set TIDEMARK_CLUSTER to one of orders, billing" in done.stderr
