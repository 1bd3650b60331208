"""Where independent parts of a conversion, and programs to verify, run when this machine is not enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from distributed import Client


class ExecutorError(Exception):
    """An executor that cannot be reached; the message is one sentence for the user."""


@contextmanager
def executor_at(address: str, resource: str = "") -> Iterator[Executor | None]:
    """The executor behind `dask://HOST:PORT`, whose workers have torch2ms installed; None for no address.

    Every piece of work takes one of the `resource` that workers declare (`dask worker --resources GPU=1`).
    """
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
        yield client.get_executor(**_taking(resource, client, place))


def _taking(resource: str, client: Client, place: str) -> dict[str, dict[str, int]]:
    """How work is submitted that takes one of the resource; work that only waits for a CPU goes without."""
    if not resource:
        return {}
    try:
        known = client.scheduler_info(n_workers=-1)
    except TypeError:  # before 2025 all workers are told of in any case
        known = client.scheduler_info()
    if any(resource in worker.get("resources", ()) for worker in known["workers"].values()):
        return {"resources": {resource: 1}}
    if resource == "CPU":
        return {}
    raise ExecutorError(f"no worker at {place} has a {resource}: start one with `dask worker --resources {resource}=1`")
