"""Passwords in command lines, and in files that programs read: `sshpass -p X`, `mysql -pX`, `IDENTIFIED BY 'X'`, `.netrc`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hermes_mnemosyne.masking.found import Find, placeholder, strong
from hermes_mnemosyne.text import lazy

_VALUE = r"(?:\"(?P<double>[^\"\n]{1,256})\"|'(?P<single>[^'\n]{1,256})'|(?P<bare>[^\s\"'|;&<>`]{1,256}))"
_REST = r"\b[^\n|;&]{0,200}?"
_WORD = r"\s{1,20}\S{1,255}\s{1,20}"
_FIELDS = r":[^:\s]{1,64}:[^:\s]{1,64}:(?P<bare>\S{1,256})(?:\s|\Z)"
_PORTS = lazy(r"[0-9.:]*:[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class _Command:
    """A `word` in lower case, and the expression that is tried where it stands; `chosen` values must look like passwords.

    Where the `gate` is not in a text, the word is not looked for.
    """

    gate: str
    word: str
    pattern: Callable[[], re.Pattern[str]]
    chosen: bool = False

    def find(self, text: str, lowered: str) -> Iterator[Find]:
        start = lowered.find(self.word)
        while start >= 0:
            if match := self.pattern().match(text, start):
                name = match.lastgroup or ""
                value = match[name].rstrip(".,)]") if name == "bare" else match[name]
                # What ends so is a name with a value of its own.
                named = match[name].endswith((":", "="))
                if (
                    value
                    and not named
                    and not placeholder(value)
                    and not _PORTS().match(value)
                    and (strong(value) or not self.chosen)
                ):
                    yield Find(match.start(name), match.start(name) + len(value), "password")
            start = lowered.find(self.word, start + len(self.word))


def _command(word: str, pattern: str, *, gate: str = "", chosen: bool = False) -> _Command:
    return _Command(gate or word, word, lazy(pattern), chosen)


COMMANDS: tuple[_Command, ...] = (
    _command("sshpass", rf"sshpass{_REST}\s-p\s?{_VALUE}", gate="pass"),
    _command("sql", rf"(?<=\bmy)sql(?:dump|admin|import|sh)?{_REST}\s-p{_VALUE}"),
    _command("sqlcmd", rf"(?<!\w)sqlcmd{_REST}\s-P\s?{_VALUE}", gate="sql"),
    _command("mariadb", rf"(?<!\w)mariadb{_REST}\s-p{_VALUE}"),
    _command("identified", rf"(?i:identified\s{{1,8}}(?:with\s{{1,8}}\S{{1,64}}\s{{1,8}})?by\s{{1,8}}(?:password\s{{1,8}})?)(?=['\"]){_VALUE}", chosen=True),
    _command("identified", rf"IDENTIFIED\s{{1,8}}(?:WITH\s{{1,8}}\S{{1,64}}\s{{1,8}})?BY\s{{1,8}}{_VALUE}"),
    _command("password", rf"(?i:(?<=\bencrypted )password|(?<=\bwith )password|(?<=\bset )password|(?<=\buser )password)[ ]?=?[ ]?(?=['\"]){_VALUE}", gate="pass"),
    _command("machine", rf"(?<!\w)machine\s{{1,20}}\S{{1,255}}\s{{1,20}}(?:(?:login|account){_WORD}){{0,2}}password[ \t]{{1,20}}{_VALUE}", gate="pass"),
    _command("default", rf"(?<!\w)default\s{{1,20}}(?:(?:login|account){_WORD}){{1,2}}password[ \t]{{1,20}}{_VALUE}", gate="pass"),
    _command("login", rf"(?<!\w)login{_WORD}pass(?:word)?[ \t]{{1,20}}{_VALUE}", gate="pass", chosen=True),
    _command("curl", rf"(?<!\w)[Cc]url\b[^\r\n]{{0,96}}?\s(?:-u|-U|--user|--proxy-user)[ =]?[\"']?[^\s:\"']{{1,128}}:(?![/\s\"']){_VALUE}"),
    _command("--auth", rf"--auth[ =][\"']?[^\s:\"']{{1,128}}:(?![/\s\"']){_VALUE}"),
    _command("login", rf"(?:(?<=\bdocker )|(?<=\bpodman )|(?<=\bregistry ))login{_REST}\s-p\s?{_VALUE}"),
    _command("mongo", rf"(?<!\w)mongo\w{{0,8}}{_REST}\s-p\s?{_VALUE}"),
    _command("redis-cli", rf"(?<!\w)redis-cli{_REST}\s-a\s?{_VALUE}"),
    _command("mosquitto_", rf"(?<!\w)mosquitto_(?:pub|sub|rr){_REST}\s-P\s?{_VALUE}"),
    _command("ldap", rf"(?<!\w)ldap(?:search|modify|add|delete|passwd|whoami){_REST}\s-w\s?{_VALUE}"),
    _command("smb", rf"(?<!\w)smb\w{{1,10}}{_REST}\s-U\s?[\"']?[^\s%\"']{{1,128}}%{_VALUE}"),
    _command("zip", rf"zip\s[^\n|;&]{{0,200}}?(?<=\s)-P\s?{_VALUE}"),
    _command("7z", rf"(?<!\w)7z[ar]?\s[^\n|;&]{{0,200}}?\s-p{_VALUE}"),
    _command("pass:", rf"(?<=\s)pass:(?:(?<=-pass pass:)|(?<=-passin pass:)|(?<=-passout pass:)){_VALUE}", gate="pass"),
    _command("htpasswd", rf"(?<!\w)htpasswd\s{{1,4}}-\w{{0,4}}b\w{{0,4}}(?:\s{{1,4}}\S{{1,255}}){{2}}\s{{1,4}}{_VALUE}", gate="pass"),
    _command("echo", rf"(?<!\w)echo\s{{1,4}}(?:-n\s{{1,4}})?{_VALUE}(?=\s{{0,4}}\|\s{{0,4}}sudo\s(?:-\w+\s){{0,4}}-S\b)"),
    _command("echo", r"(?<!\w)echo\s{1,4}[\"']?[^\s:\"']{1,64}:(?P<bare>[^\s\"'|]{1,256})(?=[\"']?\s{0,4}\|[^\n|]{0,40}chpasswd)"),
    _command(":5432:", rf":5432{_FIELDS}"),
)  # fmt: skip


def commands(text: str, lowered: str, gates: frozenset[str]) -> list[Find]:
    """Return the passwords of commands; `lowered` is the text in lower case, place by place, `gates` are those that it holds."""
    found = [find for command in COMMANDS if command.gate in gates for find in command.find(text, lowered)]
    return sorted(found, key=lambda find: find.start)
