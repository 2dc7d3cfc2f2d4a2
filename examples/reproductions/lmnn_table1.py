"""LMNN, Table 1
=============

Table 1 of Weinberger and Saul (2009), measured again.

Run it with ``python examples/reproductions/lmnn_table1.py --data DIR``; DIR holds letters.npz, mnist.npz and the
others, and the environment variable SDPMETRIC_DATA may name it instead. It writes lmnn_table1.md and lmnn_table1.png
into ``--output``. What was measured is kept there, one JSON file for each cell, and not measured again.

.. image:: /pictures/lmnn_table1.png
   :alt: LMNN, Table 1, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/lmnn_table1.png'

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path

from table1.bench import Bench
from table1.columns import COLUMNS, Column
from table1.report import write
from table1.rows import ROWS, Cell


def measure(column: Column, rows: list[str], splits: slice, output: Path) -> None:
    for seed in column.seeds[splits]:
        bench = Bench(column, seed, output / "models")
        for name in rows:
            file = output / "cells" / column.name / f"{name}-{seed}.json"
            if file.is_file():
                continue
            began = time.perf_counter()
            cell = ROWS[name][1](bench)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(None if cell is None else asdict(cell)))
            if cell is not None:
                seconds = time.perf_counter() - began
                print(f"{column.name} {name} {seed}: {cell.test:.2f} % {cell.chosen} ({seconds:.1f} s)", flush=True)


def collect(column: Column, rows: list[str], output: Path) -> dict[str, list[Cell]]:
    """What is there of a column, by row, in the order of the splits."""
    found: dict[str, list[Cell]] = {}
    for name in rows:
        files = [output / "cells" / column.name / f"{name}-{seed}.json" for seed in column.seeds]
        cells = [json.loads(file.read_text()) for file in files if file.is_file()]
        found[name] = [Cell(**cell) for cell in cells if cell is not None]
    return found


def names(given: str, known: dict[str, object]) -> list[str]:
    chosen = given.split(",")
    if foreign := sorted(set(chosen) - set(known)):
        raise SystemExit(f"there is no {', '.join(foreign)}; choose among {', '.join(known)}.")
    return chosen


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of .npz files; default: SDPMETRIC_DATA")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="some of %(default)s")
    parser.add_argument("--rows", default=",".join(ROWS), help="some of %(default)s")
    parser.add_argument("--splits", default=":100", help="the first so many splits of each column, or some, as 20:30")
    parser.add_argument("--output", type=Path, default=Path("reproduction_results") / "lmnn_table1")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, report what is there")
    given = parser.parse_args(arguments)
    if given.data:
        os.environ["SDPMETRIC_DATA"] = given.data
    columns, rows = names(given.columns, COLUMNS), names(given.rows, ROWS)
    splits = slice(*(int(end) if end else None for end in given.splits.split(":")))
    for name in columns if not given.report_only else []:
        try:
            measure(COLUMNS[name], rows, splits, given.output)
        except ConnectionError as error:  # of data that have to be downloaded
            print(f"{name} was not measured: {error}")
    found = {name: collect(COLUMNS[name], rows, given.output) for name in columns}
    print(write(found, given.output))


if __name__ == "__main__":
    main()
