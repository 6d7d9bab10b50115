"""The front door: settings, command line and demo.

What a person types and what it prints belongs here; what is computed, read or stored does not.
"""
