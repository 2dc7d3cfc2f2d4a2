"""Every compiled loop of the package, one module for each kind of work; what all of them share is here."""

# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
