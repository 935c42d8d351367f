"""Commands that change single memories: remember, edit, retire, forget, undo."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import InvalidInput, NotFound
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, metadata_of, opened, text_of
from hermes_mnemosyne.cli.output import Output, complain
from hermes_mnemosyne.values import TARGETS, Origin, Receipt

if TYPE_CHECKING:
    from hermes_mnemosyne import Memory

_WORDS = {
    "added": "remembered",
    "exists": "known already",
    "queued": "accepted, waits in the spool until the store can be written",
    "refused": "refused: it was forgotten; an explicit 'remember' revives it",
}
_NEVER = "never"


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    _register_remember(commands)
    _register_edit(commands)
    retire = add_command(
        commands,
        "retire",
        _retire,
        help="take memories out of recall; history keeps them and 'undo' brings them back",
        example="mnemosyne retire 01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10",
    )
    forget = add_command(
        commands,
        "forget",
        _forget,
        aliases=["delete"],
        help="erase memories for good: text, history, every copy; this cannot be undone",
        example="mnemosyne forget 01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10",
    )
    undo = add_command(
        commands,
        "undo",
        _undo,
        help="take back the last change of memories: an edit, a retirement, or the addition itself",
        example="mnemosyne undo 01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10",
    )
    for parser in (retire, forget, undo):
        parser.add_argument("uids", nargs="+", metavar="ID", help="the id, as every listing prints it")


def _register_remember(commands: Commands) -> None:
    parser = add_command(
        commands,
        "remember",
        _remember,
        aliases=["store"],
        help="store a memory; storing what exists returns its id and says so",
        example="mnemosyne remember 'The staging database listens on port 5433' --tag infra\n"
        "fortune | mnemosyne remember - --theme jokes",
    )
    parser.add_argument("text", metavar="TEXT", help="the text, '-' to read it from standard input")
    parser.add_argument(
        "more", nargs="*", metavar="SOURCE IMPORTANCE", help="only after the name 'store': as --source, --importance"
    )
    parser.add_argument(
        "--target", choices=TARGETS, default="memory", help="a note of the agent (memory, the default) or about the user (user)"
    )
    _add_fields(parser)
    parser.add_argument("--pin", dest="pinned", action="store_true", help="rank it higher whatever its age")
    parser.add_argument("--supersedes", metavar="ID", help="the memory that this one replaces; it stays, marked, out of recall")
    parser.add_argument("--local", action="store_true", help="never let it leave this machine")
    parser.add_argument("--session", metavar="ID", default="", help="the conversation it belongs to")
    parser.add_argument("--source", metavar="NAME", default="", help="where it comes from, in a word")


def _register_edit(commands: Commands) -> None:
    parser = add_command(
        commands,
        "edit",
        _edit,
        aliases=["update"],
        help="change the text or the fields of a memory; the old state goes to its history",
        example="mnemosyne edit 01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10 'The staging database listens on port 5434'",
    )
    parser.add_argument("uid", metavar="ID", help="the id, as every listing prints it")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the new text, '-' to read it from standard input")
    parser.add_argument("more", nargs="*", metavar="IMPORTANCE", help="only after the name 'update': as --importance")
    _add_fields(parser)
    parser.add_argument("--pin", dest="pinned", action=argparse.BooleanOptionalAction, default=None, help="pin or unpin it")
    parser.add_argument("--no-tags", action="store_true", help="remove all tags")


def _add_fields(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tag", action="append", dest="tags", metavar="TAG", help="a tag; repeat the option for more")
    parser.add_argument("--importance", type=_importance, metavar="0..1", help="how much it matters (default 0.5)")
    parser.add_argument("--valid-until", metavar="WHEN", help=f"hide it after this time; a bare day includes the day; '{_NEVER}'")
    parser.add_argument("--occurred-at", metavar="WHEN", help="when it happened, if that is not now")
    parser.add_argument("--meta", action="append", default=[], metavar="KEY=VALUE", help="metadata; repeat the option for more")


def _importance(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1") from None


def _old_spelling(args: argparse.Namespace, name: str, fields: tuple[str, ...]) -> dict[str, str]:
    """Return the positional extras that scripts written for `name` in earlier memory tools give after the text."""
    if args.more and (args.mnemosyne_command != name or len(args.more) > len(fields)):
        raise InvalidInput("there is more than one text: put quotation marks around it")
    return dict(zip(fields, args.more, strict=False))


def _as_importance(text: str) -> float:
    try:
        return _importance(text)
    except argparse.ArgumentTypeError as error:
        raise InvalidInput(f"{error}: put quotation marks around the text") from None


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that were given."""
    fields: dict[str, Any] = {}
    if args.tags is not None:
        fields["tags"] = tuple(args.tags)
    if args.importance is not None:
        fields["importance"] = args.importance
    if args.pinned is not None:
        fields["pinned"] = args.pinned
    if args.valid_until is not None:
        fields["valid_until"] = None if args.valid_until == _NEVER else args.valid_until
    if args.occurred_at is not None:
        fields["occurred_at"] = args.occurred_at
    if args.meta:
        fields["metadata"] = metadata_of(args.meta)
    return fields


def _remember(args: argparse.Namespace, out: Output) -> int:
    old = _old_spelling(args, "store", ("source", "importance"))
    fields = {"target": args.target, **_fields(args)}
    if "importance" in old:
        fields["importance"] = _as_importance(old["importance"])
    if args.supersedes:
        fields["supersedes"] = args.supersedes
    if args.local:
        fields["visibility"] = "local"
    if args.session:
        fields["session_id"] = args.session
    content = text_of(args.text)
    with opened(args, out, create=True) as memory:
        source, _ = memory.clean(args.source or old.get("source", ""))
        receipt = memory.remember(content, origin=Origin("cli", source), **fields)
        _print_receipt(receipt, out)
    return Exit.FAILED if receipt.status == "refused" else Exit.DONE


def _edit(args: argparse.Namespace, out: Output) -> int:
    old = _old_spelling(args, "update", ("importance",))
    changes = _fields(args)
    if "importance" in old:
        changes["importance"] = _as_importance(old["importance"])
    if args.no_tags:
        changes["tags"] = ()
    if args.text is not None:
        changes["content"] = text_of(args.text)
    if not changes:
        raise InvalidInput("nothing to change: give a text or an option such as --tag")
    with opened(args, out) as memory:
        _print_receipt(memory.update(args.uid, **changes), out)
    return Exit.DONE


def _retire(args: argparse.Namespace, out: Output) -> int:
    return _each(args, out, "retired", lambda memory, uid: memory.retire(uid))


def _forget(args: argparse.Namespace, out: Output) -> int:
    return _each(args, out, "deleted", lambda memory, uid: memory.forget(uid))


def _undo(args: argparse.Namespace, out: Output) -> int:
    return _each(args, out, "undone", lambda memory, uid: memory.undo(uid))


def _each(args: argparse.Namespace, out: Output, done_word: str, act: Callable[[Memory, str], Receipt]) -> int:
    """Do `act` to each id; an unknown id is reported and the rest goes on."""
    done = missing = 0
    with opened(args, out) as memory:
        for uid in args.uids:
            try:
                receipt = act(memory, uid)
            except NotFound as error:
                missing += 1
                complain(str(error))
                continue
            done += 1
            _print_receipt(receipt, out)
        if not out.json_mode:
            out.line(f"{done} {done_word}" + (f", {missing} not found" if missing else ""))
    return Exit.FAILED if missing else Exit.DONE


def _print_receipt(receipt: Receipt, out: Output) -> None:
    if out.json_mode:
        out.json({"uid": receipt.uid, "status": receipt.status, "notes": receipt.notes})
        return
    out.line(f"{receipt.uid}  {_WORDS.get(receipt.status, receipt.status)}")
    for note in receipt.notes:
        out.block(f"note: {note}")
