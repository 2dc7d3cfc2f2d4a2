"""Where parts of the work are held and done: on threads of this process, or on a Dask cluster."""

from sdpmetric.engine.cluster import Dask, resolve
from sdpmetric.engine.interface import Engine, Threads

__all__ = ["Dask", "Engine", "Threads", "resolve"]
