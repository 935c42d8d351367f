"""What a memory may see: the reach of a theme, a subject and the themes that are readable beside."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_mnemosyne import identity
from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.protocol import Reach
from hermes_mnemosyne.text import storable
from hermes_mnemosyne.values import ALL_THEMES

CONTACT_BUCKETS = frozenset({identity.DM_BUCKET, identity.GROUP_BUCKET})


def theme_name(theme: object) -> str:
    """Return a theme as it is stored. Raises InvalidInput for one without a name."""
    if not isinstance(theme, str) or not theme.strip() or storable(theme)[1]:
        raise InvalidInput("a theme needs a name of visible characters")
    return theme.strip().lower()


def reach_of(theme: str, subject: str | None, readable: str | Iterable[str] | None) -> Reach:
    """Return the reach of a memory; `readable` is what `Memory.open` takes for `readable_themes`."""
    if readable == ALL_THEMES:
        return Reach(None, None)
    if subject:
        # Inside a shared theme a contact sees the own rows only.
        return Reach(frozenset({theme}), subject)
    if theme in CONTACT_BUCKETS:
        # Without a subject nobody can tell whose rows they are.
        return Reach(frozenset(), "")
    names = identity.theme_names(readable)
    hidden = frozenset(identity.BUCKETS - {theme})
    if ALL_THEMES in names:
        return Reach(None, "", hidden)
    return Reach(frozenset({theme, *(name for name in names if name not in hidden)}), "", hidden)
