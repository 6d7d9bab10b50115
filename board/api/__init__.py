"""The API under ``/api/v1``: a module for each kind of address.

What belongs here: parameters and the shape of answers. Reading and choosing rows does not.
"""
