"""An independent checker of proof files: it uses NumPy and python-flint, and no code of the package that wrote them.

All floats in the files are taken as exact numbers. To be read in this order: `statements`, what is to be proven;
`arithmetic`, the means; `files`, what is read; `__main__`, the verdict.
"""
