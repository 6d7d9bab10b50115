"""What is asked client by client, counter by counter and queue by queue, less often than the rest.

Here belongs what fills `rows.DEEP` and the columns that only such questions can fill, one module
per question; `reader`, which puts them together; and `options`, which says how far to go. Each part
is bounded and a failure in it is a problem of the snapshot, nothing more. Here does not belong what
a few requests give in bulk.
"""
