"""The Dagster project of somebody else that mounts Tidemark beside its own assets."""

from tests.support.checkout import ROOT
from tests.support.homes import environment
from tidemark.settings.home import Home

PROJECT = ROOT / "tests" / "fixtures" / "strange_project"
MODULE = "strange.definitions"

_GONE = "clusters:\n- {name: gone, namesrv: 127.0.0.1:1}\n"


def project_environment(home: Home) -> dict[str, str]:
    """Return the environment of the project's commands, whose Dagster is that of the home."""
    clusters = home.path / "shop-clusters.yaml"
    clusters.write_text(_GONE)
    settings = {"SHOP_TIDEMARK_HOME": str(home.path), "SHOP_CLUSTERS": str(clusters)}
    settings |= {"DAGSTER_HOME": str(home.dagster), "PYTHONPATH": f"{PROJECT}:{ROOT}"}
    ours = environment(home, **settings)
    # The component alone names the home.
    del ours["TIDEMARK_HOME"]
    return ours
