"""Settings: the environment, and the files of clusters, health and quality.

What belongs here: every value that whoever runs Tidemark may set, with its type, unit and default,
and the reader that names file, line and field of a mistake. What does not belong here: what the
values are used for. Nothing here imports another room but value types of ``rocketmq``.
"""
