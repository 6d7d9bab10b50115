"""Shared helpers of the tests; each module is named after the things that it makes."""
