"""An adversary of every claim: hostile problems, exact objectives, and a judge."""
