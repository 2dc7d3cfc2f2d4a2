"""Ways into other packages, each an optional extra: Dask arrays."""
