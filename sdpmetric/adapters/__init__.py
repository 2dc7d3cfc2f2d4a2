"""Ways into other packages, each an optional extra: ONNX graphs, river's online learning."""
