"""Arrays by what they hold, for annotations."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# Row numbers of data, of which there are fewer than 2^31; and numbers of triplets, of which there may be more.
IndexArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# For functions whose results allow for underflow, which `np.seterr` of a user may have made an error.
allow_underflow = np.errstate(under="ignore")
