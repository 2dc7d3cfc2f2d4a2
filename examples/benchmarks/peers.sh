#!/bin/sh
# Builds the environment of the peers, apart from ours since they need older packages:
#     sh examples/benchmarks/peers.sh [DIRECTORY, default .peers]
set -eu
where=${1:-.peers}
"${PYTHON:-python3}" -m venv "$where"
# metric-learn 0.7 needs a scikit-learn below 1.6; PyLMNN 1.6.4 a SciPy below 1.14 and six, which it does not declare.
"$where/bin/pip" install --quiet "numpy<2.3" "scipy<1.14" "scikit-learn==1.5.*" six \
    "metric-learn==0.7.*" "mlpack==4.8.*"
"$where/bin/pip" install --quiet --no-deps "PyLMNN==1.6.4"
# PyLMNN imports GPyOpt, for a search over its parameters that nobody here asks for: an empty stand-in is enough.
site=$("$where/bin/python" -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")
mkdir -p "$site/GPyOpt"
: > "$site/GPyOpt/__init__.py"
echo "BayesianOptimization = None" > "$site/GPyOpt/methods.py"
"$where/bin/python" -c "import metric_learn, mlpack, pylmnn"
echo "The peers are in $where."
