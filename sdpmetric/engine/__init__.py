"""Where parts of the work are held and done: on threads of this process, or on a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdpmetric.engine.cluster import Dask
from sdpmetric.engine.interface import Engine, Threads

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Dask", "Engine", "Threads", "resolve"]


def resolve(engine: Engine | Client | str | None) -> Engine:
    """The engine that is meant by a name, a Dask client or an engine.

    Raises
    ------
    ValueError
        If no engine has the name.
    TypeError
        If it is none of these.
    ImportError
        If the engine needs a package that is not installed.
    """
    if engine is None or engine == "threads":
        return Threads()
    if isinstance(engine, str):
        raise ValueError(f"engine must be 'threads', a Dask client or one of sdpmetric.engines, got {engine!r}.")
    if hasattr(engine, "place"):
        return engine
    return Dask(engine)
