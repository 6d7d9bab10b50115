"""Switches of the metric families that the board exports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricsSettings:
    """One switch for each family.

    Attributes:
        native: the names that brokers of RocketMQ 5.5 export.
        exporter: the names of rocketmq-exporter.
        own: Tidemark's own names.
        queues: a series for each queue of each group; many.
    """

    native: bool = True
    exporter: bool = True
    own: bool = True
    queues: bool = False

    @property
    def families(self) -> frozenset[str]:
        """Names of the families that are on."""
        switches = {
            "native": self.native,
            "exporter": self.exporter,
            "own": self.own,
            "queues": self.queues,
        }
        return frozenset(name for name, is_on in switches.items() if is_on)
