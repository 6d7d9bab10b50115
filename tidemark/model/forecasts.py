"""Forecasts of groups and brokers, and the reasons for which one states nothing."""

from enum import StrEnum


class ForecastKind(StrEnum):
    """Events whose time is forecast."""

    DRAIN = "drain"
    """No message of a group waits any more."""
    LOSS = "loss"
    """The first unconsumed message of a group may be deleted."""
    DISK_FULL = "disk_full"
    """The disk of a broker is so full that it refuses messages."""


class NoForecast(StrEnum):
    """Why a forecast states nothing."""

    UNKNOWN = "unknown_number"
    """The newest number is unknown."""
    BOUND = "bound"
    """The newest number is a bound."""
    REACHED = "reached"
    """It has happened already."""
    TOO_FEW = "too_few"
    """Too few numbers of the last hours are known."""
    MOVES_AWAY = "moves_away"
    """The number stands, or moves the other way."""
    TOO_WIDE = "too_wide"
    """The interval has no end, or is too wide or too far away to help."""
