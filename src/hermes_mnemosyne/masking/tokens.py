"""Secrets that are known by their own form: tokens of services, and private keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hermes_mnemosyne.masking.found import Find
from hermes_mnemosyne.text import lazy


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    trigger: str
    pattern: Callable[[], re.Pattern[str]]
    digit: bool
    headed: bool = False

    def find(self, text: str) -> Iterator[Find]:
        for match in self.pattern().finditer(text):
            if not self.digit or any(character.isdigit() for character in match.group()):
                yield Find(match.start(), match.end(), self.kind)


def _token(kind: str, trigger: str, body: str, *, head: str | None = None, digit: bool = True) -> _Token:
    # Nothing that the body may hold can stand before a match: so a long run is read once, not once per place in it. A literal
    # beginning lets the engine skip to it, hence the look-back after it.
    literal = re.escape(trigger)
    start = f"(?<![A-Za-z0-9_-]){head}" if head else f"{literal}(?<![A-Za-z0-9_-]{literal})"
    return _Token(kind, trigger, lazy(start + body), digit, head is not None)


SHORTEST_TOKEN = 16
_W = "[A-Za-z0-9]"
_B = "[A-Za-z0-9_-]"
TOKENS: tuple[_Token, ...] = (
    _token("aws-key", "AKIA", f"[A-Z0-9]{{16}}(?!{_W})", digit=False),
    _token("aws-key", "ASIA", f"[A-Z0-9]{{16}}(?!{_W})"),
    *(_token("github-token", f"gh{letter}_", f"{_W}{{20,}}+") for letter in "pousr"),
    _token("github-token", "github_pat_", f"{_B}{{20,}}+"),
    *(
        _token("gitlab-token", f"gl{name}-", f"{_B}{{16,}}+")
        for name in ("pat", "oas", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "soat", "ffct")
    ),
    _token("slack-token", "xox", f"[a-z](?:\\.xox[a-z])?-{_B}{{12,}}+"),
    _token("slack-token", "xapp-", f"{_B}{{20,}}+"),
    _token("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}+"),
    _token("api-key", "sk-", f"{_B}{{16,}}+"),
    _token("api-key", "mnk_", f"{_B}{{30,}}+", digit=False),
    _token("stripe-key", "k_live_", f"{_W}{{10,}}+", head="[spr]k_live_", digit=False),
    _token("stripe-key", "k_test_", f"{_W}{{10,}}+", head="[spr]k_test_", digit=False),
    _token("webhook-secret", "whsec_", "[A-Za-z0-9+/=_-]{16,}+", digit=False),
    _token("google-key", "AIza", f"{_B}{{30,}}+", digit=False),
    _token("google-token", "ya29.", f"{_B}{{20,}}+"),
    _token("google-secret", "GOCSPX-", f"{_B}{{20,}}+", digit=False),
    _token("npm-token", "npm_", f"{_W}{{30,}}+"),
    _token("pypi-token", "pypi-", f"{_B}{{40,}}+"),
    _token("jwt", "eyJ", rf"{_B}{{8,}}+(?:\.{{1,2}}{_B}++){{1,4}}", digit=False),
    _token("telegram-token", ":AA", f"{_B}{{30,}}+", head="[0-9]{6,12}:AA"),
    _token("sendgrid-key", "SG.", rf"{_B}{{16,}}+\.{_B}{{16,}}+", digit=False),
    _token("huggingface-token", "hf_", f"{_W}{{30,}}+", digit=False),
    _token("api-key", "gsk_", f"{_W}{{30,}}+"),
    _token("api-key", "r8_", f"{_W}{{30,}}+"),
    _token("api-key", "xai-", f"{_B}{{40,}}+"),
    _token("api-key", "pplx-", f"{_W}{{30,}}+"),
    _token("api-key", "nvapi-", f"{_B}{{40,}}+"),
    _token("api-key", "PMAK-", f"{_B}{{30,}}+"),
    _token("api-key", "lin_api_", f"{_W}{{30,}}+"),
    _token("api-key", "ntn_", f"{_W}{{30,}}+"),
    _token("api-key", "secret_", f"{_W}{{32,}}+"),
    _token("api-key", "dapi", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("api-key", "key-", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("api-key", "figd_", f"{_B}{{30,}}+"),
    _token("api-key", "ATATT3", "[A-Za-z0-9_=-]{50,}+"),
    _token("api-key", "sbp_", "[0-9a-f]{40}(?![0-9A-Za-z])"),
    _token("api-key", "pscale_", f"(?:tkn|pw|oauth)_{_B}{{30,}}+"),
    _token("digitalocean-token", "_v1_", "[0-9a-f]{64}(?![0-9A-Za-z])", head="do[opr]_v1_"),
    _token("shopify-token", "shp", "(?:at|ca|pa|ss)_[0-9a-fA-F]{32}(?![0-9A-Za-z])"),
    _token("square-token", "sq0", f"(?:atp|csp)-{_B}{{20,}}+"),
    *(_token("vault-token", f"hv{letter}.", f"{_B}{{20,}}+") for letter in "sbr"),
    _token("tailscale-key", "tskey-", f"{_B}{{16,}}+"),
    _token("docker-token", "dckr_pat_", f"{_B}{{20,}}+", digit=False),
    _token("grafana-token", "glsa_", f"{_B}{{20,}}+"),
    _token("sentry-token", "sntry", "[su]_[A-Za-z0-9_=+/-]{30,}+"),
    _token("api-key", "NRAK-", "[A-Z0-9]{20,}+"),
    _token("api-key", "rubygems_", "[0-9a-f]{40,}+"),
    _token("api-key", "pul-", "[0-9a-f]{40}(?![0-9A-Za-z])"),
    _token("api-key", "xkeysib-", "[0-9a-f]{60,}+(?:-[A-Za-z0-9]+)?"),
    _token("api-key", "dp.", rf"(?:pt|st|ct|sa|scim|audit)\.(?:{_B}+\.)?{_W}{{30,}}+"),
    _token("api-key", "fm2_", "[A-Za-z0-9+/=_-]{40,}+"),
    _token("terraform-token", ".atlasv1.", f"{_B}{{40,}}+", head=f"{_W}{{10,20}}\\.atlasv1\\."),
    _token("airtable-token", "pat", f"{_W}{{14}}\\.[0-9a-f]{{64}}(?![0-9A-Za-z])"),
    _token("mailchimp-key", "-us", "", head="[0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z])"),
    _token("age-key", "AGE-SECRET-KEY-1", "[A-Z0-9]{30,}+", digit=False),
    _token("gitlab-token", "glwt-", f"{_B}{{16,}}+"),
    _token("gitlab-token", "GR1348941", f"{_B}{{20}}(?!{_B})"),
    _token("twilio-key", "SK", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("twilio-key", "AC", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("google-token", "1//0", f"{_B}{{30,}}+"),
    _token("azure-secret", "8Q~", r"[A-Za-z0-9_.~-]{31,34}(?![A-Za-z0-9_~-])", head="[A-Za-z0-9_~.]{3}8Q~"),
    _token("facebook-token", "EAA", f"{_W}{{60,}}+"),
    _token("discord-webhook", "discord", rf"(?:app)?\.com/api/webhooks/[0-9]{{16,20}}/{_B}{{40,}}+"),
    _token("teams-webhook", "webhook.office.com/webhookb2/", r"[A-Za-z0-9@-]{36,}/IncomingWebhook/[A-Za-z0-9/_-]{32,}"),
    _token("shopify-token", "shp", "(?:ss|ua)_[0-9a-fA-F]{32}(?![0-9A-Za-z])"),
    _token("square-token", "EAAA", f"{_B}{{60}}(?!{_B})"),
    _token("docker-token", "dckr_oat_", f"{_B}{{20,}}+", digit=False),
    _token("grafana-token", "glc_", "[A-Za-z0-9+/]{32,}+={0,2}"),
    _token("cloudflare-key", "v1.0-", "[0-9a-f]{24}-[0-9a-f]{100,}+"),
    _token("heroku-key", "HRKU-", f"{_B}{{30,}}+"),
    _token("bitbucket-token", "ATBB", f"{_W}{{32}}(?!{_W})"),
    _token("api-key", "ATCTT3", "[A-Za-z0-9_=-]{50,}+"),
    _token("api-key", "lin_oauth_", f"{_W}{{30,}}+"),
    _token("api-key", "CCIPAT_", f"{_B}{{20,}}+"),
    _token("api-key", "bkua_", "[0-9a-f]{40}(?![0-9A-Za-z])"),
    _token("api-key", "nfp_", f"{_W}{{36,}}+"),
    _token("api-key", "rnd_", f"{_W}{{28,}}+"),
    _token("api-key", "sb_secret_", f"{_B}{{20,}}+"),
    _token("api-key", "napi_", f"{_W}{{40,}}+"),
    _token("api-key", "mdb_sa_sk_", f"{_B}{{30,}}+"),
    _token("api-key", "tgp_v1_", f"{_B}{{30,}}+"),
    _token("api-key", "lsv2_", f"(?:pt|sk)_{_B}{{32,}}+"),
    _token("api-key", "pcsk_", f"{_B}{{40,}}+"),
    _token("api-key", "sk_", "[0-9a-f]{48}(?![0-9A-Za-z])"),
    _token("api-key", "tvly-", f"{_B}{{20,}}+"),
    _token("api-key", "fc-", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("api-key", "bb_live_", f"{_B}{{20,}}+"),
    _token("api-key", "e2b_", "[0-9a-f]{40}(?![0-9A-Za-z])"),
    _token("api-key", "re_", f"{_W}{{8}}_{_W}{{20,}}+"),
    _token("api-key", "xsmtpsib-", "[0-9a-f]{60,}+(?:-[A-Za-z0-9]+)?"),
    _token("api-key", "access-", f"(?:sandbox|development|production)-[0-9a-f]{{8}}-{_B}{{20,}}+"),
    _token("api-key", "rzp_live_", f"{_W}{{14,}}+"),
    _token("api-key", "FLWSECK", f"(?:_TEST)?-{_B}{{12,}}+"),
    _token("api-key", "CFPAT-", f"{_B}{{40,}}+"),
    _token("api-key", "tfp_", f"{_B}{{40,}}+"),
    _token("api-key", "pat-", f"(?:na|eu|ap)[0-9]-[0-9a-f]{{8}}-{_B}{{20,}}+"),
    _token("api-key", "dt0c01.", f"{_W}{{24}}\\.{_W}{{60,}}+"),
    _token("api-key", "sq", "[apu]_[0-9a-f]{40}(?![0-9A-Za-z])"),
    _token("api-key", "AKCp", f"{_W}{{60,}}+"),
    _token("api-key", "oy2", "[a-z0-9]{43}(?![0-9A-Za-z])"),
    _token("api-key", "pnu_", f"{_W}{{36}}(?!{_W})"),
    _token("api-key", "duffel_", f"(?:live|test)_{_B}{{40,}}+"),
    _token("api-key", "EZ", f"[AT]K{_W}{{54}}(?!{_W})"),
    _token("api-key", "sha256~", f"{_B}{{43}}(?!{_B})"),
    _token("api-key", "LTAI", f"{_W}{{12,30}}(?!{_W})"),
    _token("api-key", "AQVN", f"{_B}{{30,}}+"),
    _token("api-key", "y0_", f"{_B}{{50,}}+"),
    _token("api-key", "fo1_", f"{_B}{{40,}}+"),
    _token("api-key", "fm1", f"[ar]_{_B}{{40,}}+"),
    _token("api-key", "dd", f"[pw]_{_W}{{36}}(?!{_W})"),
    _token("api-key", "ops_eyJ", f"{_B}{{200,}}+", digit=False),
    _token("matrix-token", "syt_", f"{_B}{{24,}}+"),
    _token("private-key", "LS0tLS1CRUdJTi", "(?:BQUklWQVRF|BSU0EgUFJJVkFURS|BFQyBQUklWQVRF|BPUEVOU1NIIFBSSVZBVE|BFTkNSWVBURUQgUFJJVkFURS|BEU0EgUFJJVkFURS)"
           "[A-Za-z0-9+/]*+={0,2}", digit=False),
)  # fmt: skip


_PIECES = lazy("[A-Za-z0-9_-]+")
_HEAD = 3


def _by_head() -> tuple[dict[str, list[int]], list[int]]:
    """Return the numbers of the tokens by the first letters of their beginning, and those that are not to be looked up so."""
    heads: dict[str, list[int]] = {}
    rest = []
    for number, token in enumerate(TOKENS):
        head = token.trigger[:_HEAD]
        if token.headed or len(head) < _HEAD or not _PIECES().fullmatch(head):
            rest.append(number)
        else:
            heads.setdefault(head, []).append(number)
    return heads, rest


_HEADS, _HEADLESS = _by_head()


def tokens_in(words: str) -> list[_Token]:
    """Return the tokens whose beginnings stand in some words; of many few are looked for, those that a piece can begin."""
    found = [number for number in _HEADLESS if TOKENS[number].trigger in words]
    for head in _HEADS.keys() & {piece[:_HEAD] for piece in _PIECES().findall(words)}:
        found += [number for number in _HEADS[head] if TOKENS[number].trigger in words]
    return [TOKENS[number] for number in sorted(found)]


# -- private keys ----------------------------------------------------------------------------------------------------------------

_MARK = lazy(r"-{4,5} ?(BEGIN|END) ((?:[A-Z0-9]+ ){0,4})PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BODY_AFTER = lazy(
    r"(?:\\[nr]|[ \t>|#*]*\r?\n[ \t>|#*]*(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Subject|X-[A-Za-z-]+): [^\n]*+|[A-Za-z0-9+/=\\]{16,}+"
    r"|[A-Za-z0-9+/]*+=[A-Za-z0-9+/=]*+(?=\s|\Z)|(?=\r?\n))|[A-Za-z0-9+/=]{16,}+| (?=[A-Za-z0-9+/=]{40}))*+"
)
_BODY_BEFORE = lazy(r"(?:[A-Za-z0-9+/=]{40,}+(?:\\[nr]|[ \t>|]|\r?\n)*+)+(?:[A-Za-z0-9+/=]{1,40}+(?:\\[nr]|[ \t>|]|\r?\n)*+)?\Z")
_BEFORE_WINDOW = 20_000
_PUTTY = lazy(r"Private-Lines: *[0-9]+\s+((?:\s*[A-Za-z0-9+/=]{8,}+(?![^\s]))++(?:\s+Private-(?:MAC|Hash): *[0-9a-f]+)?)")


def key_blocks(text: str) -> Iterator[Find]:
    """Yield private keys (PEM, OpenSSH, PGP, PuTTY), also where the beginning or the end is missing."""
    marks = list(_MARK().finditer(text))
    found = [Find(match.start(1), match.end(1), "private-key") for match in _PUTTY().finditer(text)]
    previous_end = 0
    for index, mark in enumerate(marks):
        following = marks[index + 1] if index + 1 < len(marks) else None
        if mark[1] == "END":
            if index == 0 or marks[index - 1][1] == "END":
                window = text[max(previous_end, mark.start() - _BEFORE_WINDOW) : mark.start()]
                if body := _BODY_BEFORE().search(window):
                    found.append(Find(mark.start() - len(window) + body.start(), mark.end(), "private-key"))
        elif following is not None and following[1] == "END":
            found.append(Find(mark.start(), following.end(), "private-key"))
        else:
            tail = _BODY_AFTER().match(text, mark.end())
            if tail is not None and tail.group().strip():
                found.append(Find(mark.start(), tail.start() + len(tail.group().rstrip()), "private-key"))
        previous_end = mark.end()
    return iter(sorted(found, key=lambda find: find.start))
