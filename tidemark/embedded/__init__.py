"""The runtime of the one-command size: fork server, event log in SQLite, warm-up of the engine.

What only the embedded size uses belongs here, and all access to private modules of Dagster. Nothing
of it is needed by another size.
"""
