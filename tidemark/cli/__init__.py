"""The command line: commands, their options, and what they print.

A command belongs here with its options and its output. Nothing is computed here.
"""
