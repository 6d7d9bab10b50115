"""One module per command or group of commands; each turns arguments into one call and prints.

No logic belongs here that a test or the demo would also want to call: that lives in the rooms.
"""
