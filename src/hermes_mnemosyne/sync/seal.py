"""Sealed records: a server keeps and relays them, and only who holds the seal key can read them.

A record is encrypted with AES-SIV (RFC 5297): deterministic and authenticated, so that no nonce can be used twice, and what is sealed
again is the same box, which a server knows for what it has. In clear stand only the uid, the clock, what is gone, and two keyed
names: that of the theme, and that of the slot for what is not the present state of a row. All of it is authenticated with the box.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import MissingExtra, MnemosyneError
from hermes_mnemosyne.clock import is_stamp
from hermes_mnemosyne.store.replicating import TAG_BYTES, Sealed
from hermes_mnemosyne.sync.signing import hkdf

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KEY_BYTES = 32
GONE = ("", "slot", "row")
_HASH_DIGITS, _ID_DIGITS = 32, 16
_LONGEST_UID = 1024
_MOST_LISTED = 16
_NAME = re.compile(rf"[0-9a-f]{{{_HASH_DIGITS}}}")
_KEY_ID = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}")
_DOMAIN = "mnemosyne seal 1"


class SealError(MnemosyneError):
    """A sealed record cannot be opened. `key` is the id of the key that it names, `known` whether that key is at hand."""

    def __init__(self, message: str, *, key: str, known: bool) -> None:
        """Take a sentence and which key it is about."""
        super().__init__(message)
        self.key = key
        self.known = known


@dataclass(frozen=True, slots=True)
class SealKey:
    """What is derived of a seal key: its id, which is no secret, and the keys of boxes, of slots and of themes, which are."""

    id: str
    box: bytes = field(repr=False)
    slot: bytes = field(repr=False)
    theme: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> SealKey:
        """Derive from 32 random bytes."""
        names = {name: hkdf(secret, info=f"{_DOMAIN} {name}".encode()) for name in ("id", "slot", "theme")}
        return cls(
            names["id"].hex()[:_ID_DIGITS], hkdf(secret, info=f"{_DOMAIN} box".encode(), length=64), names["slot"], names["theme"]
        )

    def theme_id(self, theme: str) -> str:
        """Return the name by which a server knows a theme, the same whatever its case."""
        return hmac.digest(self.theme, theme.lower().encode(), "sha256").hex()[:_HASH_DIGITS]


class Sealer:
    """Seals with the first of some keys, and opens with all of them."""

    def __init__(self, keys: Sequence[SealKey]) -> None:
        """Take at least one key. Raises MissingExtra."""
        try:
            from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        except ImportError as error:
            raise MissingExtra("seal") from error
        self._keys = {key.id: key for key in keys}
        try:
            self._boxes: dict[str, AESSIV] = {key.id: AESSIV(key.box) for key in keys}
        except UnsupportedAlgorithm as error:
            raise MissingExtra("seal") from error
        self._invalid = InvalidTag
        self._first = keys[0]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys, that of the one that seals first."""
        return tuple(self._keys)

    def theme_ids(self, theme: str) -> tuple[str, ...]:
        """Return the names of a theme under each key, that of the one that seals first."""
        return tuple(key.theme_id(theme) for key in self._keys.values())

    def seal(self, record: Mapping[str, Any], *, anew: bool = False) -> Sealed:
        """Return a record of a store sealed; `anew` says that it stands in the place of what another of the keys has sealed."""
        plain = {name: value for name, value in record.items() if name != "vector"}
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()
        sealed = self._sealed(plain, text, self._first)
        if not anew or len(self._keys) == 1:
            return sealed
        others = [self._sealed(plain, text, key) for key in self._keys.values() if key is not self._first]
        over = tuple(other.tag for other in others if other.slot == sealed.slot)
        return replace(sealed, over=over, moved=tuple(other.slot for other in others if other.slot != sealed.slot))

    def _sealed(self, record: Mapping[str, Any], text: bytes, key: SealKey) -> Sealed:
        outside = _outside(record, key)
        return replace(outside, box=self._boxes[key.id].encrypt(text, [_bound(outside)]))

    def open(self, sealed: Sealed) -> dict[str, Any]:
        """Return the record that is sealed. Raises SealError."""
        key = self._keys.get(sealed.key)
        if key is None:
            raise SealError(f"it is sealed with the key {sealed.key}, which is not in the key file", key=sealed.key, known=False)
        try:
            record = json.loads(self._boxes[key.id].decrypt(sealed.box, [_bound(sealed)]))
            is_whole = _outside(record, key) == replace(sealed, box=b"", seq=0, over=(), moved=())
        except (self._invalid, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            is_whole = False
        if not is_whole:
            raise SealError(
                f"it does not open with the key {sealed.key}: it is damaged, or was changed", key=sealed.key, known=True
            )
        found: dict[str, Any] = record
        return found


def _outside(record: Mapping[str, Any], key: SealKey) -> Sealed:
    """Return what of a record is seen from outside, without its box. Raises KeyError for what is no record."""
    kind, uid, clock = record["type"], record["uid"], record["clock"]
    slot, gone = "", ""
    if kind == "history":
        name = json.dumps([uid, clock, record["action"]]).encode()
        slot = hmac.digest(key.slot, name, "sha256").hex()[:_HASH_DIGITS]
        gone = "" if record["before"] else "slot"
    elif kind == "alias":
        # The row of this uid is now that of another one.
        gone = "slot"
    elif kind == "tombstone" and record["state"] == "forgotten":
        gone = "row"
    return Sealed(uid=uid, slot=slot, theme=key.theme_id(record["theme"]), key=key.id, clock=clock, gone=gone, box=b"")


def _bound(sealed: Sealed) -> bytes:
    """Return what is authenticated with a box, without a doubt about where a field ends."""
    return json.dumps([_DOMAIN, sealed.uid, sealed.slot, sealed.clock, sealed.theme, sealed.gone, sealed.key]).encode()


# -- on the wire -----------------------------------------------------------------------------------------------------------------


def to_wire(sealed: Sealed) -> dict[str, Any]:
    """Return a sealed record as a client sends it."""
    record = {
        "type": "sealed", "uid": sealed.uid, "slot": sealed.slot, "clock": sealed.clock, "theme": sealed.theme, "gone": sealed.gone,
        "key": sealed.key, "box": base64.b64encode(sealed.box).decode(),
    }  # fmt: skip
    listed = {name: list(value) for name, value in (("over", sealed.over), ("moved", sealed.moved)) if value}
    return {**record, **listed}


def from_wire(record: Mapping[str, Any]) -> Sealed:
    """Return the sealed record that one of a page is. Raises ValueError with the reason."""
    if record.get("type") != "sealed":
        raise ValueError("it is not sealed")
    uid, slot, clock, theme, gone, key = (record.get(name) for name in ("uid", "slot", "clock", "theme", "gone", "key"))
    if not isinstance(uid, str) or not 0 < len(uid) <= _LONGEST_UID or not uid.isprintable():
        raise ValueError("uid must be text")
    if not isinstance(slot, str) or (slot and not _NAME.fullmatch(slot)) or not _is_name(theme):
        raise ValueError("slot and theme must be keyed names")
    if not isinstance(key, str) or not _KEY_ID.fullmatch(key) or not is_stamp(clock):
        raise ValueError("key and clock must be a key id and a stamp")
    if gone not in GONE or (gone == "row" and slot):
        raise ValueError("gone must be empty, slot or row")
    over, moved = (_names(record, name) for name in ("over", "moved"))
    seq = record.get("seq", 0)
    return Sealed(
        uid=uid, slot=slot, theme=str(theme), key=key, clock=str(clock), gone=str(gone), box=_box(record.get("box")),
        seq=seq if type(seq) is int else 0, over=over, moved=moved,
    )  # fmt: skip


def _box(text: object) -> bytes:
    try:
        box = base64.b64decode(text.encode("ascii"), validate=True) if isinstance(text, str) else b""
    except (binascii.Error, UnicodeEncodeError):
        box = b""
    if len(box) <= TAG_BYTES:
        raise ValueError("box must be base64 of what is sealed")
    return box


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _names(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = record.get(name, ())
    if not isinstance(values, list | tuple) or len(values) > _MOST_LISTED or not all(map(_is_name, values)):
        raise ValueError(f"{name} must be a list of at most {_MOST_LISTED} keyed names")
    return tuple(values)
