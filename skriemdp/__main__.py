"""``python -m skriemdp``; see :mod:`skriemdp.page.command`."""

import sys

from skriemdp.page.command import main

if __name__ == "__main__":
    sys.exit(main())
