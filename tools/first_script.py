"""Print the first script of README.md, to be run where only the package is installed.

python tools/first_script.py README.md | .venv-bare/bin/python -
"""

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    print(re.search(r"^```python\n(.*?)^```", text, flags=re.M | re.S)[1])
