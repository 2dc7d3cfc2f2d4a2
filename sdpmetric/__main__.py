"""``python -m sdpmetric`` is ``sdpmetric``."""

from sdpmetric.cli import main

main()
