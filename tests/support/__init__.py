"""Shared helpers of the tests; each module's name is what it makes."""
