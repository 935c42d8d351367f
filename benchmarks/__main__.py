"""`python -m benchmarks` measures the figures of the foundation."""

import sys

from benchmarks.foundation import main

sys.exit(main())
