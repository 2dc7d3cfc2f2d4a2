"""The report: one Markdown table for each column, one over all of them, and a figure."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from table1.columns import COLUMNS, Column
from table1.rows import ROWS, Cell

Found = dict[str, dict[str, list[Cell]]]
# Rows that stop early, and the paper's row that does where the head of its column has a validation part; several
# metrics hold 30 % back on every set (section 5.2).
STOPPED = {
    "lmnn-stopped": "lmnn",
    "lmnn-stopped-energy": "energy",
    "lmnn-printed": "lmnn",
    "lmnn-printed-energy": "energy",
    "several-stopped": "several",
    "several-printed": "several",
}
SEVERAL = ("several", "several-stopped", "several-printed")
SAME = {"energy-euclidean": "energy"}


def printed(column: Column, row: str) -> float | None:
    """The paper's test error that a row of a column is to be compared with."""
    if row in STOPPED and (row in SEVERAL or (column.head is not None and column.head.validation)):
        return column.printed.get(STOPPED[row])
    return column.printed.get(SAME.get(row, row))


def printed_text(column: Column, row: str) -> str:
    """The paper's test error, or why there is none."""
    value = printed(column, row)
    if value is not None:
        return f"{value:.2f}"
    return "N/A" if row in ("mmc", "nca") and column.paper else "not printed"


def printed_spent(column: Column, row: str) -> tuple[int, int] | None:
    """The paper's seconds and active constraints of that row."""
    if column.spent is None or printed(column, row) is None:
        return None
    if row in SEVERAL:
        return column.spent[2:]
    return column.spent[:2] if row in ("lmnn", "lmnn-stopped", "lmnn-printed") else None


def write(found: Found, output: Path) -> str:
    """Write the Markdown and the figure; return the Markdown."""
    output.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(
        [_overview(found), *(_details(name, rows) for name, rows in found.items() if any(rows.values()))]
    )
    (output / "lmnn_table1.md").write_text(text + "\n")
    draw(found, output / "lmnn_table1.png")
    return text


def _overview(found: Found) -> str:
    """Test errors, the paper's in brackets."""
    head = "| test error, % | " + " | ".join(found) + " |"
    lines = [head, "| --- |" + " --- |" * len(found)]
    for row, (title, _) in ROWS.items():
        cells = [_error([c.test for c in found[name].get(row, [])]) for name in found]
        papers = [printed(COLUMNS[name], row) for name in found]
        if any(cells):
            shown = [c if p is None else f"{c or 'not measured'} ({p:.2f})" for c, p in zip(cells, papers, strict=True)]
            lines.append(f"| {title} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n\nIn brackets the paper's figures."


def _details(name: str, rows: dict[str, list[Cell]]) -> str:
    lines = [
        f"### {name}",
        "",
        f"{COLUMNS[name].protocol}.",
        "",
        "| | paper, test % | test % | train % | CPU, s (paper) | active triplets (paper) | gap | splits | chosen |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row, cells in rows.items():
        if not cells:
            continue
        spent = printed_spent(COLUMNS[name], row)
        values = [
            ROWS[row][0],
            printed_text(COLUMNS[name], row),
            _error([c.test for c in cells]),
            _error([c.train for c in cells if c.train is not None]),
            _mean([c.cpu_seconds for c in cells if c.cpu_seconds], "{:.3g}") + (f" ({spent[0]:,})" if spent else ""),
            _mean([c.n_active for c in cells if c.n_active is not None], "{:,.0f}")
            + (f" ({spent[1]:,})" if spent else ""),
            _largest([c.gap for c in cells if c.gap is not None]),
            str(len(cells)),
            _chosen([c.chosen for c in cells if c.chosen]),
        ]
        lines.append("| " + " | ".join(values) + " |")
    return "\n".join(lines)


def _error(values: list[float]) -> str:
    """Mean, and the standard error where there are several splits."""
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}"


def _mean(values: list[float], form: str) -> str:
    return form.format(np.mean(values)) if values else ""


def _largest(values: list[float]) -> str:
    return f"{max(values):.0e}" if values else ""


def _chosen(values: list[str]) -> str:
    """What the validation part chose, the commonest first."""
    counts = sorted(((values.count(v), v) for v in set(values)), reverse=True)
    if len(counts) == 1:
        return counts[0][1]
    return "; ".join(f"{v} ({n})" for n, v in counts[:3]) + ("; .." if len(counts) > 3 else "")


def draw(found: Found, path: Path) -> None:
    """Bars of test error with standard errors, train error as dots, the paper's figures as crosses."""
    shown = {name: {r: c for r, c in rows.items() if c} for name, rows in found.items()}
    shown = {name: rows for name, rows in shown.items() if rows}
    if not shown:
        return
    columns = min(3, len(shown))
    lines = -(-len(shown) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(5.4 * columns, 4.6 * lines), squeeze=False)
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    for ax, (name, rows) in zip(axes.flat, shown.items(), strict=False):
        places = np.arange(len(rows))[::-1]
        tests = [[c.test for c in cells] for cells in rows.values()]
        errors = [np.std(t, ddof=1) / np.sqrt(len(t)) if len(t) > 1 else 0.0 for t in tests]
        ax.barh(places, [np.mean(t) for t in tests], xerr=errors, color="#8fb0d3", label="test")
        trains = [[c.train for c in cells if c.train is not None] for cells in rows.values()]
        known = [(p, np.mean(t)) for p, t in zip(places, trains, strict=True) if t]
        if known:
            ax.plot(
                [t for _, t in known], [p for p, _ in known], "o", color="#333333", ms=4, label="train, one left out"
            )
        papers = [(p, printed(COLUMNS[name], row)) for p, row in zip(places, rows, strict=True)]
        at = [(p, value) for p, value in papers if value is not None]
        if at:
            ax.plot([v for _, v in at], [p for p, _ in at], "x", color="#c0392b", ms=8, mew=2, label="paper, test")
        ax.set_yticks(places, [ROWS[row][0] for row in rows], fontsize=8)
        ax.set_title(name)
        ax.set_xlabel("error, %")
        middle = sorted(np.mean(t) for t in tests)[len(tests) // 2]
        limit = min(max([*map(np.mean, tests), *(value for _, value in at)]) * 1.1, 4 * middle) or 1
        ax.set_xlim(0, limit)
        for place, test in zip(places, tests, strict=True):
            if np.mean(test) > limit:  # the bar is cut: say where it ends
                ax.text(0.97 * limit, place, f"{np.mean(test):.0f} >", ha="right", va="center", fontsize=8)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)
