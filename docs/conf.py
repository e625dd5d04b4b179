"""Sphinx configuration: built warning-free and offline by ``make docs``."""

import skriemdp

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
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "README.md"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
# Links to files of the repository are for readers on a code host.
suppress_warnings = ["myst.xref_missing"]

autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "inherited-members": False}

html_theme = "pydata_sphinx_theme"
html_title = "skriemdp"
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(demo_|reproductions|deployment|__init__)",
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "plot_gallery": True,
}
