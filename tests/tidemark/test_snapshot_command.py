"""What a command reports about a cluster of which nothing could be read."""

from settings.home import Home
from tests.support.homes import run


def test_the_remedy_can_be_pasted_into_a_shell(tmp_path):
    servers = "127.0.0.1:1;127.0.0.1:2"
    done = run(Home.of(tmp_path / "home"), ["lag", "--namesrv", servers])
    assert done.returncode == 1
    assert done.stderr.endswith(f"tidemark doctor --namesrv '{servers}'\n")
