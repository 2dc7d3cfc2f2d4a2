"""Every compiled loop of the package, one module for each kind of work; what all of them share is here."""

import numba as nb

# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
# Below this many coordinate differences (half a millisecond) one thread does the work: waking the others costs tens of
# microseconds, and milliseconds on a machine that is busy with something else.
SMALL_WORK = 500_000


def thread_count() -> int:
    """Threads that the compiled loops use; numba's setting decides."""
    return int(nb.get_num_threads())
