"""The API under ``/api/v1``: a module for each kind of address.

What belongs here: parameters and the shape of responses. What does not belong here: the choice of
rows (`tidemark.board.views`).
"""
