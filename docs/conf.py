"""Sphinx configuration: built warning-free and offline by ``make docs``."""

import re
import sys
from pathlib import Path

import skriemdp

sys.path.insert(0, str(Path(__file__).parent))  # for gallery_axes

project = "skriemdp"
author = "The skriemdp developers"
copyright = "2026, The skriemdp developers"
version = release = skriemdp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
templates_path = ["_templates"]
exclude_patterns = ["_build", "README.md", "**sg_execution_times.rst"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
# Links to folders and scripts are for readers on a code host; tests/test_docs.py checks them.
# Docstrings that are inherited from scikit-learn refer to labels and terms of its own pages.
suppress_warnings = ["myst.xref_missing", "ref.ref", "ref.term"]

autosummary_generate = True
autosummary_ignore_module_all = False  # a module's page lists its __all__, re-exports included
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"
# Half a gigabyte, for one page of names.
autodoc_mock_imports = ["nvflare"]

# What is copied from an example are its commands, without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "skriemdp"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    # Scripts are wide: where a page has no contents, nothing stands beside it.
    "secondary_sidebar_items": ["page-toc"],
}
html_static_path = ["_static"]
html_css_files = ["skriemdp.css"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(demo_|mission|moabb_|reproductions|deployment|__init__)",
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "plot_gallery": True,
    "image_scrapers": ("gallery_axes.scraper",),
    "backreferences_dir": "gallery/backreferences",
    "write_computation_times": False,
}


def _escape_shapes(app, what, name, obj, options, lines):
    """Shapes such as ``(rank_, *point_shape)`` are no markup; leave literals and code alone."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")
            for j, text in enumerate(parts[::2]):
                text = re.sub(r"(?<=[(\s])\*(?=\w[\w.]*[,)])", r"\*", text)
                parts[2 * j] = re.sub(r"(?<=[(\s])(\w+)_(?=[,)])", r"\1\\_", text)
            lines[i] = "``".join(parts)


def setup(app):
    # Before numpydoc, which rearranges the lines.
    app.connect("autodoc-process-docstring", _escape_shapes, priority=100)
