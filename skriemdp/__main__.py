"""``python -m skriemdp``; see :mod:`skriemdp.page`."""

import sys

from skriemdp.page._command import main

if __name__ == "__main__":
    sys.exit(main())
