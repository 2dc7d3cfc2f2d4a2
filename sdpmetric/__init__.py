"""Metric learning as convex optimization: exact programs, fast solvers, and a certificate with every answer.

``sdpmetric/__init__.pyi`` lists the public names. Each is imported when it is first used, so ``import sdpmetric``, the
help of the command line and the checker of proofs load nothing else.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
