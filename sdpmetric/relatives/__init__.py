"""Statements of the field that are sums of terms: MMC, ITML, LSML, SDML and SCML."""
