"""Triplets: target neighbors, impostor search, margins and hinge slopes."""
