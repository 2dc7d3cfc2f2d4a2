"""A checker of proof files that believes nothing: NumPy, python-flint, and no line of the package that wrote them.

    python -m sdpmetric.check DATA PROOF

reads the data and a file of `sdpmetric.Solution.save_proof`, proves anew that the objective at the stored metric is at
most one number and that no metric has an objective below another, and compares both with what the file claims. All
floats in the files are taken as exact numbers. To be read in this order: `statements`, what is to be proven;
`arithmetic`, the means; `files`, what is read.
"""
