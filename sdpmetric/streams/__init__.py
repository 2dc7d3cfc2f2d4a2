"""Online learners: objects that take one pair, comparison or query after another, and can be asked for their metric."""
