"""Keys of resources: a project that mounts Tidemark may have a `lake` and a `spark` of its own."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, TypeVar

PREFIX = "tidemark_"

NO_RESOURCES = ("context", "config")
"""Parameters of steps and sensors that are no resources."""

Body = TypeVar("Body", bound=Callable[..., Any])


def with_own_keys(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources by the keys that Dagster knows them by."""
    return {PREFIX + name: resource for name, resource in resources.items()}


def own_keys(body: Body) -> Body:
    """Return the body of a step or sensor for Dagster, which takes a parameter's name as a key.

    A body receives its resources by their plain names. For Dagster each name has `PREFIX`.
    """
    signature = inspect.signature(body)
    plain = {PREFIX + name: name for name in signature.parameters if name not in NO_RESOURCES}

    def called(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **{plain.get(name, name): value for name, value in kwargs.items()})

    def iterated(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from called(*args, **kwargs)

    # Dagster distinguishes generator functions before it runs them.
    named = wraps(body)(iterated if inspect.isgeneratorfunction(body) else called)
    parameters = [
        parameter if parameter.name in NO_RESOURCES else parameter.replace(name=PREFIX + name)
        for name, parameter in signature.parameters.items()
    ]
    named.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore
    return named  # pyright: ignore
