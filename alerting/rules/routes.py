"""Routes, receivers and time intervals, as rule files declare them. The model is Alertmanager's."""

from typing import Annotated, Any

from jinja2 import TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BeforeValidator, Field, field_validator

from alerting.rules.inhibitions import Names
from alerting.rules.matching import IncidentMatch
from settings.durations import positive_seconds
from settings.durations import seconds as any_seconds
from settings.fields import Strict, as_tuple

DEFAULT_RECEIVER = "default"
"""The receiver that always exists: the addresses of ``TIDEMARK_NOTIFY_URLS``."""

EVERY_LABEL = "..."
"""Value of ``group_by`` by which each combination of labels is a group of its own."""

TEMPLATES = ImmutableSandboxedEnvironment(autoescape=False, trim_blocks=True, lstrip_blocks=True)
"""Jinja2 in a sandbox with access to plain values only. Messages are text, so nothing is escaped;
values are never read as templates."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_DURATION = {"json_schema_input_type": Annotated[str, Field(pattern=r"^\d")] | float}

Wait = Annotated[float, BeforeValidator(any_seconds, **_DURATION)]
Interval = Annotated[float, BeforeValidator(positive_seconds, **_DURATION)]


class Route(Strict, frozen=True):
    """One route of the tree, which inherits the fields that it leaves out from the route above.

    Attributes:
        receiver: name of the receiver.
        match: the incidents that take this route; all unless set.
        continue_: whether the routes after it are tried as well.
        group_by: labels by which incidents are put into one message; ``...`` for all of them.
        group_wait: seconds from the first transition of a group to its first message.
        group_interval: least seconds between two messages of a group.
        repeat_interval: seconds until a message is repeated, while an incident fires without an
            acknowledgement.
        escalate_after: seconds after which `escalate_to` is notified too, while the incident is
            not acknowledged.
        escalate_to: another receiver.
        active_time_intervals: it notifies only within these; not inherited.
        mute_time_intervals: it notifies only outside of these; not inherited.
        routes: routes below it; the first that matches is taken.
    """

    receiver: Annotated[str, Field(pattern=_NAME)] | None = None
    match: IncidentMatch = IncidentMatch()
    continue_: Annotated[bool, Field(alias="continue")] = False
    group_by: Names | None = None
    group_wait: Wait | None = None
    group_interval: Interval | None = None
    repeat_interval: Interval | None = None
    escalate_after: Interval | None = None
    escalate_to: Annotated[str, Field(pattern=_NAME)] | None = None
    active_time_intervals: Names = ()
    mute_time_intervals: Names = ()
    routes: Annotated[tuple["Route", ...], BeforeValidator(as_tuple)] = ()


class WebhookTarget(Strict, frozen=True):
    """An address that gets the JSON of the incident and its transition.

    Attributes:
        url: http(s) address; ``${NAME}`` stands for a variable of the environment.
        secret: key of the signature.
    """

    url: Annotated[str, Field(min_length=1)]
    secret: Annotated[str, Field(min_length=1)] | None = None


def _webhook(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


def _template(value: Any) -> Any:
    if isinstance(value, str):
        try:
            TEMPLATES.parse(value)
        except TemplateSyntaxError as error:
            raise ValueError(f"no template: {error.message} (its line {error.lineno})") from error
    return value


class Receiver(Strict, frozen=True):
    """A person or team to notify, with addresses. Any field may be a secret, so none is shown.

    Attributes:
        name: unique over all files.
        urls: apprise addresses; ``${NAME}`` stands for a variable of the environment, which may
            hold several, separated by blanks.
        alertmanager: addresses of Alertmanagers, whose API v2 gets the alerts.
        webhook: addresses that get JSON.
        language: of the ready-made messages.
        title: Jinja2 template of the title instead of the ready-made one.
        body: Jinja2 template of the text instead of the ready-made one.
    """

    name: Annotated[str, Field(pattern=_NAME, max_length=100)]
    urls: Names = ()
    alertmanager: Names = ()
    webhook: Annotated[
        tuple[Annotated[WebhookTarget, BeforeValidator(_webhook)], ...], BeforeValidator(as_tuple)
    ] = ()
    language: Annotated[str, Field(pattern="^(en|zh)$")] = "en"
    title: Annotated[str | None, BeforeValidator(_template)] = None
    body: Annotated[str | None, BeforeValidator(_template)] = None

    @field_validator("name")
    @classmethod
    def _free(cls, value: str) -> str:
        if value == DEFAULT_RECEIVER:
            raise ValueError(f"{value!r} is the receiver of TIDEMARK_NOTIFY_URLS, take another")
        return value
