"""Settings: the environment, and the files of clusters, health and quality.

What belongs here: every value that an operator may set, with its type, unit and default, and the
reader that names file, line and field of a mistake. What does not belong here: the use of the
values. Nothing here imports another room but value types of ``rocketmq``.
"""
