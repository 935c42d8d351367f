from __future__ import annotations

import subprocess
import sys

from scripts.environments import ROOT


def test_type_checkers_understand_the_public_names() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "tests/typing/public_api.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
