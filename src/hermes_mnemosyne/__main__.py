"""Run the command line as `python -m hermes_mnemosyne`."""

import sys

from hermes_mnemosyne.cli import main

if __name__ == "__main__":
    sys.exit(main())
