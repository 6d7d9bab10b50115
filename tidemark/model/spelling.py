"""The word that was probably meant, for whoever misspelt one."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a word is near to; None where none is, or it is known itself.

    The end of a known word counts too: ``groups`` means ``progress.groups``.
    """
    words = list(known)
    if word in words:
        return None
    by_end = {item.rpartition(".")[2]: item for item in words}
    near = get_close_matches(word, words, n=1) or [
        by_end[end] for end in get_close_matches(word, by_end, n=1)
    ]
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``, did you mean 'x'?`` with the nearest of the known words, '' without one."""
    meant = nearest(word, known)
    return f", did you mean {meant!r}?" if meant else ""
