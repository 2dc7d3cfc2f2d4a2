"""Statements of the field that are sums of terms: MMC, ITML, MCML, LSML, SDML and SCML."""
