"""The documentation site: pages, drawings and the generator of the reference.

What belongs here: pages that people write, and `docs.generate`, which makes the reference pages
from the declarations. What does not belong here: anything that the product imports.
"""
