"""Seeds of the slow tests, in blocks: ten thousand tests of their own would take seconds to collect in every run."""


def blocks(start: int, stop: int, size: int = 50) -> list[range]:
    """The seeds from `start` to `stop`, `size` of them for each test."""
    return [range(first, min(first + size, stop)) for first in range(start, stop, size)]
