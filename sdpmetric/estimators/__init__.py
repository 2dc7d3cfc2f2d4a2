"""Estimators of scikit-learn's kind, thin over the statements and solvers; import them from here.

``__init__.pyi`` lists them. Each is loaded when it is first used, with what it is about.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
