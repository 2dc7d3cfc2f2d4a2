"""Arrays by what they hold, for annotations, and numbers that stand for 0 and infinity."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# Row numbers of data, below 2^31, and numbers of triplets, which may be larger.
IndexArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# For functions that allow for underflow, which a user may have made an error by `np.seterr`.
allow_underflow = np.errstate(under="ignore")

# In place of 0 as a divisor.
SMALLEST_DIVISOR = 1e-300
# In place of infinity if values are subtracted.
LARGEST_VALUE = 1e300
# Entries of an array of rows by columns that is made in blocks of rows: 32 MiB.
ENTRIES_AT_ONCE = 1 << 22
