"""Words that several rooms share: enums and small records belong here.

Nothing here imports another room, and nothing is read, computed or stored.
"""
