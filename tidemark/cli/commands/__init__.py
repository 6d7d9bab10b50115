"""One module per command or group of commands; each turns arguments into one call and prints.

Logic that a test or the demo would call too does not belong here, but in the rooms.
"""
