"""Fig. 2 of Shalev-Shwartz, Singer and Ng (2004): digits with noisy pixels, measured again.

Run it with ``python examples/reproductions/pola_fig2.py``; it runs ``examples/06_pola_stream.py``, whose picture has
the filter for documents (the paper's Fig. 4) too, and writes pola_fig2.md and pola_fig2.png into ``--output``.
"""

import re

from printed import command, markdown, printed, report


def main(arguments: list[str] | None = None) -> None:
    given = command(__doc__).parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    picture = given.output / "pola_fig2.png"
    kept = given.output / "printed" / "06_pola_stream.txt"
    text = printed("06_pola_stream.py", [str(picture)], kept, given.printed)
    noise = [
        [what, euclid, pola, "not at hand"]
        for what, euclid, pola in re.findall(r"^(.*): Euclid ([\d.]+%), POLA ([\d.]+%)$", text, re.MULTILINE)
    ]
    filtered = re.findall(r"^(\w+), (\d+) documents: mistakes of POLA (\d+), of the Perceptron (\d+)$", text, re.M)
    tables = [
        markdown(["digits 3 and 8 with noise", "Euclid", "POLA", "the paper's POLA"], noise),
        markdown(["topic (Fig. 4)", "documents", "mistakes of POLA", "of the Perceptron"], filtered),
    ]
    report("pola_fig2", "\n\n".join(tables), given.output)


if __name__ == "__main__":
    main()
