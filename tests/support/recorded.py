"""Where recorded responses and golden vectors lie."""

from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"
