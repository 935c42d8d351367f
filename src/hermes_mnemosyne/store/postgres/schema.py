"""The migration files as SQL for one database: partitioned or not, with pgvector wherever its extension lies."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent / "migrations"
ENCODING = "UTF8"
"""The encoding of every database and connection: others cannot hold every text."""

PARTITIONED = ("entries", "turns", "history", "tokens", "vectors")


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration: `oldest_writer` is the oldest schema whose releases may still write after it."""

    number: int
    name: str
    checksum: str
    oldest_writer: int
    text: str

    def sql(self, *, partitions: int, extension: str) -> str:
        """Return the script; `partitions` 0 is none, `extension` is the quoted name of the schema that pgvector lies in."""
        pieces = {
            "partitioned": "PARTITION BY HASH (scope)" if partitions else "",
            "unique": "" if partitions else "UNIQUE",
            "extension": extension,
            "partitions": "\n".join(
                f"CREATE TABLE mnemosyne.{table}_p{part} PARTITION OF mnemosyne.{table} "
                f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {part});"
                for table in PARTITIONED
                for part in range(partitions)
            ),
        }
        plain = re.sub(r"^ *--.*\n", "", self.text, flags=re.MULTILINE)
        return re.sub(r"@(partitioned|partitions|unique|extension)\b", lambda found: pieces[found[1]], plain)


@cache
def migrations() -> tuple[Migration, ...]:
    """Return every migration in order."""
    found = []
    for file in sorted(_HERE.glob("*.sql")):
        text = file.read_text(encoding="utf-8")
        oldest = re.search(r"^-- oldest-writer: (\d+)$", text, flags=re.MULTILINE)
        checksum = hashlib.sha256(text.encode()).hexdigest()
        found.append(Migration(int(file.name[:4]), file.name, checksum, int(oldest[1]) if oldest else 1, text))
    return tuple(found)


@cache
def newest() -> int:
    """Return the number of the newest migration that this release knows."""
    return migrations()[-1].number
