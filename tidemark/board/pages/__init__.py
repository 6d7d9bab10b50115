"""The pages: HTML made on the server, readable without JavaScript.

What belongs here: the contents of each page, its words, and the shape of its charts. What does not
belong here: the choice of rows, because the API shows the same ones (`tidemark.board.views`).
"""
