"""Ways into other packages, each an optional extra: ONNX graphs and Dask arrays."""
