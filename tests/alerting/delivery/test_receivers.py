"""Channels that the addresses of a receiver open."""

from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.rules.routing import Receiver
from tidemark.settings.sections import NotificationSettings


def names(urls: str, **environ: str) -> tuple[list[str], list[str]]:
    receiver = Receiver(name="team", urls=(urls,))
    channels, mistakes = open_channels(NotificationSettings(), [receiver], environ)
    return [channel.name.split("-")[0] for channel in channels[1:]], mistakes


def test_a_variable_may_hold_several_addresses():
    """Otherwise the second is a path of the first, and no person is notified there."""
    several = "json://127.0.0.1/a  xml://127.0.0.1/b\n"
    assert names("${TEAM}", TEAM=several) == (["team.json", "team.xml"], [])
    assert names(several) == (["team.json", "team.xml"], [])
    wrong = names("${TEAM}", TEAM=f"{several} nosuch://s3cret")
    assert wrong == (
        ["team.json", "team.xml"],
        ["receiver team, urls[0]: apprise cannot use this nosuch:// address"],
    )


def test_a_blank_within_an_address_stays():
    assert names("mailto://127.0.0.1?name=On call&to=a@b.test&from=c@d.test")[0] == ["team.mailto"]
