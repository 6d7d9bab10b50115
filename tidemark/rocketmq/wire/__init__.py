"""The remoting protocol on the wire: frames, fastjson bodies, connections, pacing, security.

What belongs here: bytes to frames and frames to bytes, connections to one endpoint, its pace, and
our account. What does not: the meaning of a request (``tidemark.rocketmq.admin``).
"""
