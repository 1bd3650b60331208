"""Where independent parts of a conversion run when this machine is not enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor


class ExecutorError(Exception):
    """An executor that cannot be reached; the message is one sentence for the user."""


@contextmanager
def executor_at(address: str) -> Iterator[Executor | None]:
    """The executor behind `dask://HOST:PORT`, whose workers have torch2ms installed; None for no address."""
    if not address:
        yield None
        return
    scheme, _, place = address.partition("://")
    if scheme != "dask" or not place:
        raise ExecutorError(f"{address} is no executor; dask://HOST:PORT is one")
    try:
        from distributed import Client
    except ImportError:
        raise ExecutorError("Dask is not installed: pip install 'torch2ms[dask]'") from None
    try:
        client = Client(f"tcp://{place}", timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ExecutorError(f"no Dask scheduler answers at {place}: {error}") from None
    with client:
        yield client.get_executor()
