"""Every compiled loop of the package, one module for each kind of work; what all of them share is here.

A loop that is worth several threads works on one part of the whole and releases the GIL; the parts are run by
`sdpmetric.engine.threads`. No loop is compiled with numba's own parallel regions: they take several times as long to
compile, and their threads spin while they wait for each other, which costs milliseconds a time on a busy machine.

Compiled loops call no function of NumPy that numba makes in several variants, as np.sort and np.argsort, or the two
sides of np.searchsorted: it names what lies behind the variants alike but for a number that each process counts anew,
so that of two that different processes cached one can be taken for the other, and results are wrong without a word.
"""

# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
