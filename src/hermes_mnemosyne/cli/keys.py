"""The command for keys: those of a sync server (keys add, list, revoke), and those that seal rows (keys seal-key, theme)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_mnemosyne._errors import InvalidInput, MissingExtra, NotFound
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, effective_settings, theme_of
from hermes_mnemosyne.cli.output import Output, visible

if TYPE_CHECKING:
    from hermes_mnemosyne.sync.keyring import Keyring, NamedKey


def register(commands: Commands) -> None:
    """Add the command of this group."""
    keys = add_command(
        commands,
        "keys",
        _keys,
        help="keep the named keys of a sync server: who may read or write which themes",
        description=(
            "Keep the named keys of a sync server: who may read or write which themes.\n"
            "A new key is printed once and kept nowhere; a revoked one is refused at once, also by a server that runs.\n"
            "'seal-key' prints a new key for --seal-key-file of 'mnemosyne sync', 'theme' the names by which a server that cannot read\n"
            "knows a theme, for a key that is for this theme only."
        ),
        example="mnemosyne keys add laptop\nmnemosyne keys add dashboard --read --theme work --theme home\nmnemosyne keys list\n"
        "mnemosyne keys seal-key",
        # Here a theme is one of those that a key is for.
        conflict_handler="resolve",
    )
    keys.add_argument(
        "action", nargs="?", choices=("add", "list", "revoke", "seal-key", "theme"), default="list", help="default: list"
    )
    keys.add_argument(
        "name", nargs="?", metavar="NAME", help="the name of the key to add or to revoke, such as a machine; of a theme"
    )
    keys.add_argument("--read", action="store_true", help="the new key may read (default: read and write)")
    keys.add_argument("--write", action="store_true", help="the new key may write (default: read and write)")
    keys.add_argument(
        "--theme", dest="themes", action="append", metavar="THEME", help="only this theme; may be repeated (default: all)"
    )
    keys.add_argument("--keys-file", metavar="FILE", help="the file of keys (default: beside the store)")
    keys.add_argument(
        "--seal-key-file", metavar="FILE", help="for 'theme': the file of seal keys (else as 'mnemosyne sync' finds it)"
    )


def _keys(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.sync.keyring import Keyring

    if args.action == "list":
        if args.name is not None or args.read or args.write or args.themes:
            raise InvalidInput("'keys list' prints all keys: leave the name and the rights out")
        return _list(args, out)
    if args.action == "seal-key":
        return _seal_key(args, out)
    if args.name is None:
        raise InvalidInput(f"{'which theme' if args.action == 'theme' else 'whose key'}? write 'keys {args.action} NAME'")
    if args.action == "theme":
        return _theme(args, out)
    keyring = Keyring(_file_of(args))
    if args.action == "add":
        return _add(args, keyring, out)
    if args.read or args.write or args.themes:
        raise InvalidInput("'keys revoke' takes the whole key away: leave the rights out")
    revoked = keyring.revoke(args.name)
    if out.json_mode:
        out.json({"name": revoked.name, "id": revoked.signing.id, "status": "revoked"})
    else:
        out.line(f"revoked {visible(revoked.name)}")
    return Exit.DONE


def _seal_key(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.sync.seal import SealKey
    from hermes_mnemosyne.sync.seal_keys import new_key

    if args.name is not None or args.read or args.write or args.themes:
        raise InvalidInput("'keys seal-key' prints a new key: leave the name and the rights out")
    key = new_key()
    if out.json_mode:
        out.json({"key": key, "id": SealKey.of(bytes.fromhex(key)).id})
    else:
        out.line(key)
        if out.terminal:
            out.line(
                out.style("write it into a file of mode 0600 on each machine; without it nobody can read what it sealed", "dim")
            )
    return Exit.DONE


def _theme(args: argparse.Namespace, out: Output) -> int:
    import os

    from hermes_mnemosyne.sync.seal_keys import sealer_of

    setting = effective_settings(args).settings.sync.seal_key_file
    try:
        sealer = sealer_of(flag=args.seal_key_file, setting=setting, environ=os.environ)
    except MissingExtra as error:
        raise InvalidInput(str(error)) from error
    if sealer is None:
        raise InvalidInput("the name of a theme depends on the seal key: add --seal-key-file")
    names = sealer.theme_ids(args.name)
    if out.json_mode:
        out.json([{"theme": name, "key": key} for name, key in zip(names, sealer.key_ids, strict=True)])
    else:
        for name in names:
            out.line(name)
    return Exit.DONE


def _file_of(args: argparse.Namespace) -> Path:
    """Return the file that is named, else that beside the store."""
    if args.keys_file is None:
        from hermes_mnemosyne.stores import place_of
        from hermes_mnemosyne.sync.keyring import FILE_SUFFIX

        return place_of(effective_settings(args).settings).beside(FILE_SUFFIX)
    if not args.keys_file.strip() or "\0" in args.keys_file:
        raise InvalidInput("--keys-file is empty: name a file, or leave the option out")
    return Path(args.keys_file).expanduser()


def _add(args: argparse.Namespace, keyring: Keyring, out: Output) -> int:
    from hermes_mnemosyne.sync.keyring import RIGHTS
    from hermes_mnemosyne.sync.signing import key_id

    themes = args.themes
    if themes is None and (theme := theme_of(args)) is not None:  # given before the name of the command
        themes = [theme]
    rights = [word for word in RIGHTS if getattr(args, word)] or RIGHTS
    key = keyring.add(args.name, rights=rights, themes=themes)
    if out.json_mode:
        known = keyring.find(key_id(key))
        if known is None:
            raise NotFound("the new key was revoked at once by another process")
        out.json({"key": key, "file": str(keyring.path), **known.shown()})
        return Exit.DONE
    out.line(key)
    if out.terminal:
        out.line(
            out.style("this is the only time that it is shown: put it into a file of mode 0600 on the other machine,", "dim")
        )
        out.line(out.style("and name that file there with --api-key-file or MNEMOSYNE_SYNC_KEY_FILE", "dim"))
    return Exit.DONE


def _list(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.sync.keyring import Keyring

    keyring = Keyring(_file_of(args))
    # A file that is named must be there; beside the store there is none until the first key is made.
    keys = () if args.keys_file is None and not keyring.exists() else keyring.keys()
    if out.json_mode:
        out.json({"file": str(keyring.path), "keys": [key.shown() for key in keys]})
    elif keys:
        out.table(("NAME", "ID", "RIGHTS", "SINCE", "THEMES"), (_row(key) for key in keys))
    elif out.terminal:
        out.line(f"there are no keys in {visible(str(keyring.path))}: 'mnemosyne keys add NAME' makes one")
    return Exit.DONE


def _row(key: NamedKey) -> tuple[str, ...]:
    themes = key.grant.themes
    shown = "all" if themes is None else ", ".join(sorted(themes))
    return (key.name, key.signing.id, ",".join(key.rights), key.created_at[:10], shown)
