"""Errors of libraries at missing or damaged files, as one error that names the files."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import ValidationError
from sqlalchemy.exc import DatabaseError

from tidemark.host.failures import DamagedError, RefusedError, essence

UNUSABLE = (
    *(OSError, EOFError, ValueError, LookupError, AssertionError, SystemError),
    *(ValidationError, DatabaseError),
)
"""Errors that libraries raise at files that are missing, damaged or not readable."""

OBJECT_STORE = (
    "check the object store: TIDEMARK_S3_ENDPOINT, TIDEMARK_S3_REGION, AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY"
)
DATABASE = "check PostgreSQL, and TIDEMARK_CATALOG_URI"
NO_BUCKET = "create the bucket, or mend TIDEMARK_WAREHOUSE and TIDEMARK_LANDING"
FREE = "free it, or put back a copy of it"
"""Advice for the catalog file of a home, which another program may have locked."""

PUT_BACK = "put back a copy of its files; what is computed, tidemark recompute makes again"


@contextmanager
def usable(what: str, advice: str = PUT_BACK) -> Iterator[None]:
    """Turn the errors of libraries that read files into one that names the files.

    Args:
        what: the files, as the error names them.
        advice: the remedy, for a person.

    Raises:
        DamagedError: the files are missing, damaged or not readable.
    """
    try:
        yield
    except DamagedError:
        raise
    except UNUSABLE as error:
        why = str(error) or type(error).__name__
        if advice in (FREE, PUT_BACK) and isinstance(error, DatabaseError) and "psycopg2" in why:
            advice = DATABASE
        raise refused(what, why) or damaged(what, why, advice) from error


@contextmanager
def reached(what: str) -> Iterator[None]:
    """Turn refusals of an object store into the error that names it; leave all other errors.

    Args:
        what: the files, as the error names them.

    Raises:
        RefusedError: the store, or the network before it, refused.
    """
    try:
        yield
    except OSError as error:
        raise refused(what, str(error)) or error from None


def refused(what: str, why: str) -> RefusedError | None:
    """Return the error of files that an object store refused; None where it did not."""
    if "AWS Error" not in why:  # PyArrow's text when a store or its network refused
        return None
    advice = NO_BUCKET if "NO_SUCH_BUCKET" in why else OBJECT_STORE
    return RefusedError(str(damaged(what, why, advice)))


def damaged(what: str, why: str, advice: str = PUT_BACK) -> DamagedError:
    """Return the error that names files, their fault, and the remedy."""
    return DamagedError(f"{what} cannot be used: {essence(why)}; {advice}")
