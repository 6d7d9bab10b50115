"""The reference pages, generated from the declarations when the site is built."""
