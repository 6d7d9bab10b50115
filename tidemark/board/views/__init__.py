"""Rows that a person sees: which ones a route, a page and a tool for agents show.

What belongs here: the view of a person, filters, orders and pages of rows, and the choice and join
of rows for each concept. What does not belong here: reading the tables and keeping their rows
(`tidemark.board.store`), models of responses, HTML, and anything of one address alone.
"""
