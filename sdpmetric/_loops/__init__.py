"""Every compiled loop of the package, one module for each kind of work; what all of them share is here.

Compiled loops call no function of NumPy that numba makes in several variants, as np.sort and np.argsort, or the two
sides of np.searchsorted: it names what lies behind the variants alike but for a number that each process counts anew,
so that of two that different processes cached one can be taken for the other, and results are wrong without a word.
"""

import numba as nb

# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
# Below this many coordinate differences (half a millisecond) one thread does the work: waking the others costs tens of
# microseconds, and milliseconds on a machine that is busy with something else.
SMALL_WORK = 500_000


def thread_count() -> int:
    """Threads that the compiled loops use; numba's setting decides."""
    return int(nb.get_num_threads())
