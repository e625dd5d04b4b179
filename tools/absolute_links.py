"""README.md with absolute links, as the page of a package index needs them.

python tools/absolute_links.py https://host/owner/skriemdp/blob/v0.1.0 < README.md
"""

import re
import sys

_RELATIVE = re.compile(r"(!?\[[^\]]*\]\()(?!https?://|#|mailto:)([^)]+)\)")


def absolute(text: str, address: str) -> str:
    """`text` with `address` before every relative link; pictures are asked for raw."""

    def link(match: re.Match[str]) -> str:
        raw = "?raw=true" if match[1].startswith("!") else ""
        return f"{match[1]}{address.rstrip('/')}/{match[2]}{raw})"

    return _RELATIVE.sub(link, text)


if __name__ == "__main__":
    sys.stdout.write(absolute(sys.stdin.read(), sys.argv[1]))
