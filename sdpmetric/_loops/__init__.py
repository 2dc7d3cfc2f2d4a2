"""Every compiled loop of the package, one module for each kind of work; what all of them share is here.

A loop that is worth several threads works on one part of the whole and releases the GIL; the parts are run by
`sdpmetric.engine.threads`. No loop is compiled with numba's own parallel regions: they take several times as long to
compile, and their threads spin while they wait for each other, which costs milliseconds a time on a busy machine.

Compiled loops call no function of NumPy that numba makes in several variants, as np.sort and np.argsort, or the two
sides of np.searchsorted: numba names the variants alike except for a counter of each process, so a cached variant of
one process can be taken for another variant by the next, with silently wrong results.
"""

# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
