"""LEGO (Jain et al. 2008): the stream and its batch problem, regret, kernel stream, and online hashing."""
