"""Words that name secrets, in many languages, and how a name is recognised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hermes_mnemosyne.text import lazy


@dataclass(frozen=True, slots=True)
class Name:
    """A word that may name a secret.

    A `bounded` one counts only where no letter or digit touches it, a `weak` one means other things too, a `keyed` one names a
    secret only after a word such as `api`.
    """

    word: str
    is_password: bool = True
    bounded: bool = False
    weak: bool = False
    keyed: bool = False


def _passwords(*words: str) -> tuple[Name, ...]:
    return tuple(Name(word) for word in words)


_ONLY_ALONE = ("pw", "p/w", "psw", "mdp", "parol", "pasvorto", "creds", "clave")
_WEAK = ("clave", "pw", "creds")
_SECRETS = (
    *("secret", "token", "credential", "creds"),
    *(
        "\u5bc6\u94a5",
        "\u5bc6\u9470",
        "\u4ee4\u724c",
        "\u0442\u043e\u043a\u0435\u043d",
        "\u30c8\u30fc\u30af\u30f3",
        "\ud1a0\ud070",
    ),
)
_KEYS = ("key", "schl\u00fcssel", "schluessel", "\u043a\u043b\u044e\u0447", "\u30ad\u30fc")


def _names(text: str) -> tuple[Name, ...]:
    return tuple(
        Name(word, word not in (*_SECRETS, *_KEYS), bounded=word in _ONLY_ALONE, weak=word in _WEAK, keyed=word in _KEYS)
        for word in text.split(",")
    )


# A part that a name always holds, and the names: looking for few short parts is what a text without secrets costs.
NAMES: dict[str, tuple[Name, ...]] = {
    "pass": (
        *_passwords("password", "passwd", "passphrase", "passcode", "passwort", "passord", "_pass"),
        *(Name(word, bounded=True) for word in ("mot de passe", "palavra-passe", "palavra passe")),
        Name("pass", bounded=True, weak=True),
    ),
    "pw": _names("pwd,pw"),
    "key": (Name("key", is_password=False, keyed=True),),
    **{
        part: _names(words)
        for part, words in (
            line.split("=")
            for line in [
                "",
                "p/w=p/w",
                "psw=psw,pswd",
                "kennwort=kennwort",
                "secret=secret",
                "token=token",
                "cred=credential,creds",
                "contras=contraseña,contrasena,contrasenya,contrasinal",
                "clave=clave",
                "senha=senha",
                "woord=wachtwoord,wagwoord",
                "kode=adgangskode,kodeord",
                "eslo=heslo,geslo",
                "salasana=salasana",
                "paro=parola,parolă,parool,parol",
                "lozinka=lozinka",
                "zaporka=zaporka",
                "sandi=kata sandi",
                "laluan=kata laluan",
                "jelsz=jelszó,jelszo",
                "haslo=haslo",
                "sifre=sifre",
                "mdp=mdp",
                "nenosiri=nenosiri",
                "pasvort=pasvorto",
                "schluessel=schluessel",
                "hasło=hasło",
                "lösenord=lösenord",
                "schlüssel=schlüssel",
                "şifr=şifre,şifrə",
                "slaptažod=slaptažodis",
                "lykilorð=lykilorð",
                "fjalëkalim=fjalëkalim",
                "khẩu=mật khẩu",
                "парол=пароль,парола",
                "лозинк=лозинка",
                "токен=токен",
                "ключ=ключ",
                "κωδικ=κωδικόσ πρόσβασησ,κωδικόσ",
                "סיסמ=סיסמה,סיסמא",
                "المرور=كلمة المرور",
                "السر=كلمة السر",
                "عبور=رمز عبور",
                "पासवर्ड=पासवर्ड",
                "รหัสผ่าน=รหัสผ่าน",
                "პაროლ=პაროლი",
                "密码=密码",
                "密碼=密碼",
                "口令=口令",
                "密钥=密钥",
                "密鑰=密鑰",
                "令牌=令牌",
                "パスワード=パスワード",
                "暗証番号=暗証番号",
                "トークン=トークン",
                "キー=キー",
                "비밀번호=비밀번호",
                "패스워드=패스워드",
                "암호=암호",
                "토큰=토큰",
                "",
            ][1:-1]
        )
    },
}

# Each name with the place of the part in it.
_PLACED = {part: tuple((name.word.index(part), name) for name in names) for part, names in NAMES.items()}
_SUFFIXES = ("", "s", "n", "es", "en", "value", "base", "text")
ENDINGS = {
    part: tuple(
        name.word.split()[-1].rpartition("-")[2] + suffix for name in names for suffix in (("",) if name.bounded else _SUFFIXES)
    )
    for part, names in NAMES.items()
    if part.isascii()
}
"""How a word ends that names a secret: after a name no letter may follow but for these."""
_KEYED_BY = (
    *(
        "api",
        "access",
        "secret",
        "private",
        "signing",
        "encryption",
        "decryption",
        "auth",
        "account",
        "master",
        "shared",
        "service",
        "sync",
    ),
    *(
        "license",
        "licence",
        "storage",
        "admin",
        "webhook",
        "subscription",
        "function",
        "recovery",
        "deploy",
        "wpa",
        "wpa2",
        "wpa3",
        "wep",
    ),
    *("wifi", "wlan", "consumer", "activation", "bitlocker"),
)
_COUNTED_BY = (
    *("max", "min", "num", "total", "prompt", "completion", "input", "output", "count", "by", "per", "new", "page"),
    *("publickey", "public key", "public_key", "public-key", "public.key"),
)
_NOT_SECRET_NAME = lazy(
    rf"(?i)(?:{'|'.join(_COUNTED_BY)})[ _.-]?tokens?\s*\Z|(?<![a-z])(?:by|com|im|over|sur|tres|under)pass\s*\Z"
)
_SECRET_NAME = lazy(
    r"(?i)(?:pass(?:word|wd|phrase|code|wort)?|pwd|kennwort|contrase\u00f1a|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc|secret|"
    r"token|credentials?|authorization|cookies?|(?<![^\W_])(?:pw|psw)|"
    r"(?:api|access|secret|private|signing|encryption|auth|account|master|shared)[ _.-]?key)"
    r"s?(?:[ _.-]?(?:value|base|text|hash|plain))?[0-9]{0,3}\s*\Z"
)


def places(lowered: str, parts: Iterable[str]) -> list[tuple[int, int, Name]]:
    """Return (start, end, name) of every word in a lower-case text that may name a secret, by place; `parts` are keys of NAMES."""
    found = []
    for part in parts:
        names = _PLACED[part]
        place = lowered.find(part)
        while place >= 0:
            for offset, name in names:
                if lowered.startswith(name.word, place - offset) and _is_name(lowered, place - offset, name):
                    found.append((place - offset, place - offset + len(name.word), name))
            place = lowered.find(part, place + len(part))
    found.sort(key=lambda place: place[:2])
    return found


def _is_name(lowered: str, start: int, name: Name) -> bool:
    end = start + len(name.word)
    if start < 0:
        return False
    if name.bounded:
        before, after = lowered[start - 1 : start], lowered[end : end + 1]
        return not (before.isalnum() or before == "_" or after.isalnum())
    if not name.keyed and name.word != "token":
        return True
    before = lowered[max(0, start - 16) : start]
    if before[-1:] in {" ", "_", ".", "-"}:
        before = before[:-1]
    return before.endswith(_KEYED_BY) if name.keyed else not before.endswith(_COUNTED_BY)


def names_secret(name: str) -> bool:
    """Tell whether a key of this name holds a secret, such as `db_password`, `apiKey` or `X-Auth-Token`."""
    return _SECRET_NAME().search(name) is not None and _NOT_SECRET_NAME().search(name) is None


NAMED_PIN = lazy(r"(?:(?<![A-Za-z])(?:pin|PIN|Pin|puk|PUK|cvv|CVV|cvc|CVC|otp|OTP)|[a-z](?:Pin|PIN|Otp))(?:[ _-]?[Cc]ode)?\s*\Z")
"""A key that holds a secret when its value is a number of four digits or more (`pin: 13` of a board is none)."""
