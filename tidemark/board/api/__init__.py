"""The API under ``/api/v1``: a module for each kind of address.

What belongs here: parameters and the shape of responses. Reading and choosing rows does not.
"""
