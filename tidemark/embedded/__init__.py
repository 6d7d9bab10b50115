"""The runtime of the one-command size: fork server, Dagster's storage in SQLite.

What only the embedded size uses belongs here, and all access to private modules of Dagster. Nothing
of it is needed by another size.
"""
