"""The site: ``sphinx-build -W docs site`` builds it without a network; warnings are errors."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.ext import autosummary
from sphinx.writers.html5 import HTML5Translator
from sphinx_gallery.sorting import FileNameSortKey

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
api, notebooks = importlib.import_module("api"), importlib.import_module("notebooks")

project = "sdpmetric"
author = copyright = "The sdpmetric developers"
release = version = version_of(project)

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
]
exclude_patterns = ["course", "measured"]
templates_path = ["_templates"]
default_role = "py:obj"
nitpicky = False
toc_object_entries = False

# Markdown as GitHub reads it: math in dollars and in fences, links to headings.
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
# `ProgramName` and `console` blocks hold output beside input.
highlight_language = "python"
suppress_warnings = ["config.cache"]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "sdpmetric"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/logo.svg"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "logo": {"text": f"sdpmetric {release}"},
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
if "example.org" not in notebooks.SOURCE:  # a placeholder leads nowhere
    html_theme_options["external_links"] = [{"name": "Source", "url": notebooks.SOURCE}]

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples"), "course"],
    "gallery_dirs": ["generated/gallery", "generated/course"],
    "filename_pattern": r"/(examples|course)/\d\d_",  # what is executed
    "ignore_pattern": r"(benchmarks/|lmnn_figs/|table1/|printed\.py|rivals\.py|__init__\.py)",
    "within_subsection_order": FileNameSortKey,
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),  # what cells print, not what their last line returns
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 10,
    "write_computation_times": False,  # a page that loads scripts from the network
    "notebook_images": True,
    "default_thumb_file": str(HERE / "pictures" / "idea.svg"),
    "abort_on_example_error": True,
}


def write_api(app: Sphinx, config: object) -> None:
    """List every public name by task, on one page and on a page of each task, which heads its names in the sidebar."""
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    pages = {"api": "API\n===\n\nEvery public name, by task. ``import sdpmetric as sm``.\n\n"}
    for title, module, names in api.sections():
        stem = "api_" + re.sub(r"\W+", "_", title.lower())
        listed = "\n".join(f"   {name}" for name in names)
        table = f".. currentmodule:: {module}\n\n.. autosummary::\n   :nosignatures:\n{{}}\n{listed}\n\n"
        pages["api"] += (
            f":doc:`{title} <{stem}>`\n{'-' * (len(title) + len(stem) + 11)}\n\n"
            + table.format("")
        )
        pages[stem] = f"{title}\n{'=' * len(title)}\n\n" + table.format("   :toctree: api\n")
    stems = "\n".join(f"   {stem}" for stem in pages if stem != "api")
    pages["api"] += f".. toctree::\n   :hidden:\n\n{stems}\n"
    for stem, text in pages.items():
        target = folder / f"{stem}.rst"
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def write_about(app: Sphinx, config: object) -> None:
    """Changelog, citation and license as pages."""
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("CHANGELOG.md", "CITATION.cff", "LICENSE")
    }
    pages = {
        "changelog": re.sub(r"\]\(docs/", "](../", texts["CHANGELOG.md"]),
        "citation": f"# Cite sdpmetric\n\n```yaml\n{texts['CITATION.cff']}```\n",
        "license": f"# License\n\n```text\n{texts['LICENSE']}```\n",
    }
    for name, text in pages.items():
        (HERE / "generated" / f"{name}.md").write_text(
            f"---\norphan: true\n---\n\n{text}", encoding="utf-8"
        )


BULLET = re.compile(
    r"^- (?:\[[^\]]*\]\((?!https?:|\.\./)[^)#\s]+\.(?:md|rst)\)(?:, )?)+", re.MULTILINE
)
PAGE = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)\.(?:md|rst)\)")
KEY = re.compile(r"\*\*\[(\w+\d{4})\]\*\*")
PICTURE = re.compile(r"!(\[[^\]]*\])\((pictures/\w+)\.svg\)")
# Pages whose lists of links are the site's navigation.
TRACKS = ("index", "start", "benchmarks")
# Measured tables are files of the repository, which the site offers for download.
MEASURED = re.compile(r"\]\((measured/\w+\.md)(?:#[\w-]+)?\)")
# What pages link to on GitHub, and what Sphinx makes of it.
FOLDERS = {
    "../examples": "generated/gallery/index.rst",
    "../examples/reproductions": "generated/gallery/reproductions/index.rst",
    "course": "generated/course/index.rst",
    "../sdpmetric/__init__.pyi": "generated/api.rst",
    "../CHANGELOG.md": "generated/changelog.md",
    "../CITATION.cff": "generated/citation.md",
    "../LICENSE": "generated/license.md",
}


def both_modes(picture: re.Match[str]) -> str:
    """A picture that is stored for dark pages too is shown in the one that fits."""
    if not (HERE / f"{picture[2]}-dark.svg").exists():
        return picture[0]
    shown = (("", "only-light"), ("-dark", "only-dark"))
    return "".join(f"!{picture[1]}({picture[2]}{mode}.svg){{.{kind}}}" for mode, kind in shown)


def navigation(docname: str, text: str) -> str:
    """The pages that a track lists, under their headings, become its part of the navigation: no second list to keep."""
    if docname not in TRACKS:
        return ""
    trees = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        links = [
            link
            for bullet in BULLET.finditer(section)
            for link in PAGE.findall(bullet.group())
        ]
        pages = [f"{title} <{page}>" if docname == "index" else page for title, page in links]
        if pages:
            caption = "" if docname == "index" else f":caption: {section.splitlines()[0]}\n"
            trees.append(
                f"\n```{{toctree}}\n:hidden:\n{caption}\n{chr(10).join(dict.fromkeys(pages))}\n```\n"
            )
    return "".join(trees)


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make Markdown that GitHub shows into the site's: navigation, links to examples, keys of the bibliography."""
    if Path(app.env.doc2path(docname)).suffix != ".md":
        return
    text = source[0]
    for folder, made in FOLDERS.items():
        text = text.replace(f"]({folder})", f"]({made})")
    up = "../" * docname.count("/")
    if docname == "bibliography":
        text = KEY.sub(lambda key: f"[**{key[1]}**]{{#{key[1].lower()}}}", text)
    else:
        keys = KEY.findall((HERE / "bibliography.md").read_text(encoding="utf-8"))
        text += (
            "\n"
            + "".join(f"\n[{key}]: {up}bibliography.md#{key.lower()}" for key in keys)
            + "\n"
        )
    text = re.sub(
        r"\]\((?:\.\./)+examples/(\d\d_\w+)\.py\)", rf"]({up}generated/gallery/\1.rst)", text
    )
    text = MEASURED.sub(r"](path:\1)", text)
    text = PICTURE.sub(both_modes, text)
    text = re.sub(r"\]\((?:\.\./)+README\.md(#[\w-]+)?\)", rf"]({up}index.md)", text)
    source[0] = text + navigation(docname, text)


def inline_math(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula as MathML, which browsers draw themselves: no script and no network."""
    translator.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def block_math(translator: HTML5Translator, node: nodes.math_block) -> None:
    """The same, on lines of its own."""
    translator.body.append(f'<div class="formula">{mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


MATHML = "http://www.w3.org/1998/Math/MathML"
# Relations that the converter takes for variables, which get no space around them.
RELATIONS = "⪰⪯⟺:±"


def mathml(node: nodes.math | nodes.math_block, as_block: bool) -> str:
    """A formula; a command that is not known stops the build."""
    text = " ".join(node.astext().split())
    formula = convert(
        text.replace("{aligned}", "{align*}"), display="block" if as_block else "inline"
    )
    if unknown := re.search(r"<m\w+>(\\\w+|&(?!#))", formula):
        raise ValueError(
            f"{node.source}:{node.line}: {unknown[1]} is not known, in the formula {text}"
        )
    ElementTree.register_namespace("", MATHML)
    tree = ElementTree.fromstring(formula)
    for part in tree.iter():
        if part.tag == f"{{{MATHML}}}mi" and part.text is not None and part.text in RELATIONS:
            part.tag = f"{{{MATHML}}}mo"
        if (
            part.tag == f"{{{MATHML}}}mo"
            and part.text in ("|", "‖")
            and "minsize" not in part.attrib
        ):
            part.attrib |= {
                "stretchy": "false",
                "lspace": "0",
                "rspace": "0",
            }  # both bars of a norm look alike
        if (
            as_block
            and part.tag == f"{{{MATHML}}}msub"
            and part[0].text in ("min", "max", "argmin", "argmax")
        ):
            part.tag = f"{{{MATHML}}}munder"  # below the word, as in print
    return ElementTree.tostring(tree, encoding="unicode")


CITED = re.compile(r"\[([A-Z]\w*\d{4})\](?!_)")


def link_citations(
    app: Sphinx, kind: str, name: str, what: object, options: object, lines: list[str]
) -> None:
    """``[WS2009]`` in a docstring leads to the bibliography."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            lines[number] = re.sub(
                r"\[([A-Z]\w*\d{4})\](?!_)",
                lambda key: f":ref:`[{key[1]}] <{key[1].lower()}>`",
                line,
            )
            lines[number] = MENTIONED.sub(page_of, lines[number])


MENTIONED = re.compile(r"`{0,2}docs/((?:measured/)?\w+)\.md`{0,2}")


def page_of(mention: re.Match[str]) -> str:
    """``docs/methods.md`` in a docstring leads to the page, and that of a measured table to the page that offers it."""
    page = "benchmarks" if mention[1].startswith("measured") else mention[1]
    title = re.search(
        r"^# (.*)$", (HERE / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert title is not None
    return f":doc:`{title[1]} </{page}>`"


def without_constructor(
    app: Sphinx,
    kind: str,
    name: str,
    what: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str, str | None] | None:
    """Classes that are made by ``from_labels`` or the like do not open with a constructor that nobody calls."""
    made = kind == "class" and "Make one with" in (what.__doc__ or "")
    return ("", returned) if made else None


def summary(lines: list[str], settings: object) -> str:
    """The first sentence of a docstring; "Eq." and full stops in literals do not end it, as they do for autosummary."""
    paragraph = " ".join("\n".join(lines).strip().split("\n\n")[0].split())
    sentence = re.match(
        r"(?:``.*?``|[^`]|`[^`]+`)*?(?<!\bEq)(?<!\bFig)(?<!\bal)\.(?=\s|$)", paragraph
    )
    return sentence[0] if sentence else paragraph


autosummary.extract_summary = summary


def escape_trailing_underscores(
    app: Sphinx, kind: str, name: str, what: object, options: object, lines: list[str]
) -> None:
    """``(n, n_features_in_) array`` is a shape, not a link."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            lines[number] = re.sub(r"(?<![`\w.])([A-Za-z]\w*)_(?=[,)\s]|$)", r"\1\\_", line)


def write_notebooks(app: Sphinx) -> None:
    """Replace sphinx-gallery's notebooks, which keep directives as text and show solutions."""
    notebooks.write(HERE / "generated" / "course", HERE / "generated" / "gallery")


def skip_foreign(
    app: Sphinx, kind: str, name: str, what: object, skip: bool, options: object
) -> bool | None:
    """Leave out methods that scikit-learn or Python define."""
    function = (
        what.fget
        if isinstance(what, property)
        else inspect.unwrap(what)
        if callable(what)
        else what
    )
    home = getattr(function, "__module__", None)
    return True if home is not None and not str(home).startswith("sdpmetric") else None


def setup(app: Sphinx) -> None:
    """Connect the hooks above."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline_math, None), block_renderers=(block_math, None)
    )
    app.connect("config-inited", write_api)
    app.connect("config-inited", write_about)
    app.connect("source-read", read_source)
    app.connect("builder-inited", write_notebooks, priority=600)  # after sphinx-gallery
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("autodoc-process-docstring", link_citations, priority=850)
    app.connect(
        "autodoc-process-docstring", escape_trailing_underscores, priority=900
    )  # after numpydoc
