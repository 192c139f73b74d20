"""``python -m tests.decisions --write`` brings the table in the docs up to date; without it, it is printed."""

from __future__ import annotations

import sys

from tests.decisions.table import PAGE, markdown, written

if "--write" in sys.argv[1:]:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
else:
    sys.stdout.write(markdown() + "\n")
