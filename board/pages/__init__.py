"""The pages: HTML made on the server, readable without JavaScript.

What belongs here: what each page shows, in which words, and the shape of its charts. Reading rows
does not: the API uses the same functions.
"""
