"""Tidemark: how far every RocketMQ consumer has got, how late it is, and why.

The rooms below hold everything but jobs, assets, Spark functions and expectations, which belong to
`orchestration`, `assets`, `spark` and `expectations`. Nothing else stands at this level.
"""
