"""The patches of apprise fit the installed version; an upgrade has to check them again."""

import subprocess
import sys

import apprise
import pytest
import requests

from tidemark.alerting.delivery import channels
from tidemark.alerting.delivery.channels import AppriseChannel


def test_the_installed_apprise_is_the_tested_version():
    assert apprise.__version__ == channels.TESTED_VERSION


@pytest.mark.slow
def test_importing_the_channels_patches_no_library():
    code = (
        "import requests\n"
        "import tidemark.alerting.delivery.channels\n"
        "from tidemark.alerting.delivery.channels import PLUGINS\n"
        "assert all(plugin.requests is requests for plugin in PLUGINS)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_opening_a_channel_patches_each_plugin_once():
    AppriseChannel("json://127.0.0.1/a")
    patched = [plugin.requests for plugin in channels.PLUGINS]
    AppriseChannel("json://127.0.0.1/b")
    assert [plugin.requests for plugin in channels.PLUGINS] == patched
    assert all(item is not requests for item in patched)
    assert all(item.codes is requests.codes for item in patched), "all else is requests' own"
