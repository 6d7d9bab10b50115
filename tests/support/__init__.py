"""Shared helpers of the tests; each module's name says what it makes."""
