"""Write into an unpacked source archive what only its publisher knows: addresses, contact, date.

python tools/release_facts.py FOLDER --url https://host/owner/skriemdp/blob/v0.1.0
    --docs https://docs.host --contact security@host --date 2026-01-31
"""

from __future__ import annotations

import argparse
import datetime
import re
import runpy
from pathlib import Path

absolute = runpy.run_path(str(Path(__file__).with_name("absolute_links.py")))["absolute"]


def stated(name: str, text: str, url: str, docs: str, contact: str, date: str) -> str:
    """The text of the file `name` with these facts in it.

    Raises
    ------
    ValueError
        Where the changelog calls the version unreleased, or a place for a fact is not found.
    """
    if name == "README.md":
        return absolute(text, url)
    if name == "CHANGELOG.md":
        if "(unreleased)" in text:
            raise ValueError("CHANGELOG.md says (unreleased); write the date of the release there.")
        return text
    if name == "CITATION.cff":
        return _replaced(
            r'(  - name: "The skriemdp developers"\n)', rf'\1    email: "{contact}"\n', text
        ) + (f'date-released: "{date}"\nrepository-code: "{url}"\nurl: "{docs}"\n')
    if name == "pyproject.toml":
        author = '{ name = "The skriemdp developers"'
        text = _replaced(re.escape(author), f'{author}, email = "{contact}"', text)
        return f'{text}\n[project.urls]\nSource = "{url}"\nDocumentation = "{docs}"\n'
    if name == "SECURITY.md":
        by_mail = r"by mail to the `Author-email` that `pip show --verbose skriemdp` prints\. "
        return _replaced(by_mail, f"by mail to {contact}. ", text)
    raise ValueError(f"{name} holds no fact of a release.")


FILES = ("README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "SECURITY.md")


def _replaced(pattern: str, new: str, text: str) -> str:
    text, count = re.subn(pattern, new, text)
    if count != 1:
        raise ValueError(f"expected one place for {new!r}, found {count}.")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for fact in ("url", "docs", "contact"):
        parser.add_argument(f"--{fact}", required=True)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    options = vars(parser.parse_args())
    folder = options.pop("folder")
    for name in FILES:
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(stated(name, text, **options), encoding="utf-8")


if __name__ == "__main__":
    main()
