"""How work is done: compiled loops, threads of this process, blocks on a Dask cluster, and when it has to end."""
