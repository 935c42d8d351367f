"""A process of the fleet's tests: a host's agent that is told turn after turn, until it is killed.

It prints the number of each turn whose hook has returned, so that its parent knows what must have survived.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.provider_home import exchange
from tests.postgres.fleet_home import SESSION, FleetHome


def main(home: str, dsn: str, first: str, count: str) -> None:
    provider = FleetHome(Path(home), dsn).start()
    for number in range(int(first), int(first) + int(count)):
        provider.sync_turn(*exchange(number), session_id=SESSION)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
