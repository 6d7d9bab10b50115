"""The `tidemark` command: its subcommands, checks of an installation, and the demo.

Arguments and output of commands belong here; code that computes, reads or stores does not.
"""
