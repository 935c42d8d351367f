"""The test vectors of docs/sync-protocol.md are what the code computes."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

from hermes_mnemosyne.store.feed import bucket_of, digest_of
from hermes_mnemosyne.sync import seal, signing, wire
from scripts.environments import ROOT

PAGE = (ROOT / "docs" / "sync-protocol.md").read_text(encoding="utf-8")


def vectors() -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def test_keys_and_signatures_are_those_of_the_page() -> None:
    known, _, _ = vectors()
    keys = signing.derive(known["key"])
    assert (keys.id, keys.request.hex(), keys.answer.hex()) == (known["key_id"], known["request_key"], known["answer_key"])
    request, answer = known["request"], known["answer"]
    assert signing.body_digest(request["body"].encode()) == request["body_digest"]
    made = signing.sign(known["key"], request["method"], request["target"], request["body_digest"], known["nonce"])
    assert made == request["signature"]
    assert signing.sign_answer(known["key"], answer["status"], answer["body_digest"], known["nonce"]) == answer["signature"]


def test_digests_and_parts_are_those_of_the_page() -> None:
    _, known, _ = vectors()
    rows = [tuple(row) for row in known["rows"]]
    assert digest_of(rows) == known["digest"]
    assert [bucket_of(row[0]) for row in rows] == known["buckets"]


def test_sealed_records_are_those_of_the_page() -> None:
    _, _, known = vectors()
    key = seal.SealKey.of(bytes.fromhex(known["key"]))
    derived = (key.id, key.box.hex(), key.slot.hex(), key.theme.hex())
    assert derived == tuple(known[name] for name in ("key_id", "box_key", "slot_key", "theme_key"))
    sealer = seal.Sealer([key])
    for pair in known["records"]:
        assert seal.to_wire(sealer.seal(pair["record"])) == pair["sealed"]
        assert sealer.open(seal.from_wire(pair["sealed"])) == pair["record"]


def test_the_page_of_the_page_can_be_read_and_is_no_page_without_its_last_line() -> None:
    [text] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    page = wire.read_page([gzip.compress(text.encode())], encoding="gzip")
    assert page.set_aside == []
    assert [record["type"] for record in page.records] == ["entry", "alias", "history", "tombstone"]
    written = wire.encode_page({name: page.head[name] for name in ("replica", "now", "model")}, page.records)
    assert gzip.decompress(written).decode() == text
