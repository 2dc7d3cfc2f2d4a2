"""Approximate nearest neighbors under a metric that is still being learned (Jain et al. 2008, section 3)."""

from sdpmetric.hashing.index import HashIndex

__all__ = ["HashIndex"]
