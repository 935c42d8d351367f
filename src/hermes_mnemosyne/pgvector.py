"""Run the maintenance command as `python -m hermes_mnemosyne.pgvector`."""

import sys

from hermes_mnemosyne.cli import pgvector_main

if __name__ == "__main__":
    sys.exit(pgvector_main())
