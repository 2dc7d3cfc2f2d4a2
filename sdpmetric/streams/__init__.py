"""Online learners: objects that take one pair, quadruple or query after another, and can be asked for their metric."""
