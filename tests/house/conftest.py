"""Lets the tests here, which are no package, import cli_page.py beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
