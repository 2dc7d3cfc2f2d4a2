"""Table 1 of Weinberger and Saul (2009): its columns, its rows, and the report."""
