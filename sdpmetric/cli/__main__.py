"""``python -m sdpmetric.cli`` is ``sdpmetric``."""

from sdpmetric.cli import main

main()
