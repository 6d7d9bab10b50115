"""Matches on incidents, as routes and inhibitions write them: globs on columns and labels.

A column or label that an incident does not have counts as empty text, as in Alertmanager.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, field_validator

from tidemark.settings.fields import Globs, Strict, fits_text

OWN_LABELS = (
    *("severity", "rule", "kind", "subject"),
    *("cluster", "consumer_group", "topic", "broker"),
)
"""Names that every incident has; the labels of its rule cannot replace them."""


class IncidentMatch(Strict, frozen=True):
    """A condition on incidents: every field that is set has to match by one of its globs.

    Attributes:
        severity: ``critical`` | ``warning`` | ``info``.
        rule: name of the rule.
        kind: kind of the rule.
        subject: the whole subject, ``cluster/group/topic``.
        cluster: of the newest row for which the rule is true, like those below.
        consumer_group: the group.
        topic: the topic.
        broker: the broker.
        labels: name to globs of a label of the rule.
    """

    severity: Globs | None = None
    rule: Globs | None = None
    kind: Globs | None = None
    subject: Globs | None = None
    cluster: Globs | None = None
    consumer_group: Globs | None = None
    topic: Globs | None = None
    broker: Globs | None = None
    labels: dict[Annotated[str, Field(min_length=1)], Globs] = Field(default_factory=dict)

    def globs(self) -> dict[str, tuple[str, ...]]:
        """Return label to globs, of all fields that are set."""
        own = {name: getattr(self, name) for name in OWN_LABELS}
        return {name: globs for name, globs in (own | self.labels).items() if globs}

    @field_validator("labels")
    @classmethod
    def _no_fields(cls, value: dict[str, Globs]) -> dict[str, Globs]:
        for name in value.keys() & set(OWN_LABELS):
            raise ValueError(f"{name} is a field of the match, write it next to `labels`")
        return value

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an incident with these labels is meant."""
        return all(fits_text(globs, labels.get(name, "")) for name, globs in self.globs().items())
