"""Secrets are replaced, what names them stays, and prose about secrets stays as it is."""

from __future__ import annotations

import pytest

from hermes_mnemosyne.masking import mask, mask_value, names_secret

RUN = "q7Zr2Xw9Lp4Kt8Vb3Nc6Mj1Hg5Fd0SaYeUiOoPqWzTxRvByCnDmEkGl"
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("AKIAIOSFODNN7EXAMPLE", "aws-key"),
        (f"ghp_{RUN[:36]}", "github-token"),
        (f"ghs_{RUN[:36]}", "github-token"),
        (f"github_pat_{RUN}", "github-token"),
        (f"glpat-{RUN[:20]}", "gitlab-token"),
        (f"xoxb-123456789012-{RUN[:24]}", "slack-token"),
        (f"sk-ant-api03-{RUN}", "api-key"),
        (f"sk-proj-{RUN}", "api-key"),
        (f"sk-{RUN[:48]}", "api-key"),
        (f"AIza{RUN[:35]}", "google-key"),
        (f"sk_live_{RUN[:24]}", "stripe-key"),
        (f"npm_{RUN[:36]}", "npm-token"),
        (f"pypi-{RUN}", "pypi-token"),
        (f"hf_{RUN[:34]}", "huggingface-token"),
        (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{RUN[:43]}", "jwt"),
        (f"123456789:AA{RUN[:33]}", "telegram-token"),
        (f"SG.{RUN[:22]}.{RUN[:43]}", "sendgrid-key"),
        ("NRAK-OLBVCGM174H1MXOZHCYUOWK0VRT", "api-key"),
        (f"dp.pt.{RUN[:43]}", "api-key"),
        (f"fm2_{RUN}", "api-key"),
        (f"xkeysib-{'0a1b2c3d' * 8}-{RUN[:16]}", "api-key"),
        (f"rubygems_{'0a1b2c3d' * 6}", "api-key"),
        (f"{RUN[:14]}.atlasv1.{RUN}", "terraform-token"),
        (f"pat{RUN[:14]}.{'0a1b2c3d' * 8}", "airtable-token"),
        (f"{'0a1b2c3d' * 4}-us14", "mailchimp-key"),
    ],
)
@pytest.mark.parametrize("frame", ["{}", "use {}.", 'key="{}",', "(see {})", "a\n{}\nb", "\u4f7f\u7528{}\u3002"])
def test_tokens_of_known_services_are_masked_anywhere(secret: str, kind: str, frame: str) -> None:
    masked, notes = mask(frame.format(secret))
    assert secret[-12:] not in masked
    assert f"masked:{kind}" in notes
    assert masked == frame.format(f"[masked:{kind}]")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=hunter2", "password=[masked:password]"),
        ("Password: hunter2, then on", "Password: [masked:password], then on"),
        ('{"password": "hunter2", "user": "bob"}', '{"password": "[masked:password]", "user": "bob"}'),
        ('{\\"token\\": \\"abc123def\\"}', '{\\"token\\": \\"[masked:secret]\\"}'),
        ("DB_PASSWORD=s3cr3t;host=x", "DB_PASSWORD=[masked:password];host=x"),
        ("export SECRET_KEY='abc'", "export SECRET_KEY='[masked:secret]'"),
        ("api_key: abcd1234efgh", "api_key: [masked:secret]"),
        ("X-Api-Key: 12345678abcdef", "X-Api-Key: [masked:secret]"),
        ("mytool --token abc123def run", "mytool --token [masked:secret] run"),
        ("wifi password: bluegoose\nnext", "wifi password: [masked:password]\nnext"),
        ("The password for the NAS is Blu3Goose!", "The password for the NAS is [masked:password]!"),
        ('passphrase is "correct horse battery staple"', 'passphrase is "[masked:password]"'),
        ("**Password:** `hunter2x`", "**Password:** `[masked:password]`"),
        ("password:\n  hunter2x", "password:\n  [masked:password]"),
        ("Das Passwort lautet Sommer2024!", "Das Passwort lautet [masked:password]!"),
        ("senha: Abc12345", "senha: [masked:password]"),
        ("wachtwoord = Abc12345", "wachtwoord = [masked:password]"),
        ("L\u00f6senord: Abc12345", "L\u00f6senord: [masked:password]"),
        ("\u5bc6\u7801\u662f\uff1aAbc12345", "\u5bc6\u7801\u662f\uff1a[masked:password]"),
        ("Passwort ist Sommer2024!", "Passwort ist [masked:password]!"),
        ("\u5bc6\u7801\uff1ahunter2abc", "\u5bc6\u7801\uff1a[masked:password]"),
        ("PASSWORD={a$b,c;d", "PASSWORD=[masked:password]"),
        ('config["password"] = "x1"', 'config["password"] = "[masked:password]"'),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx", "aws_secret_access_key = [masked:secret]"),
        ("postgres://bob:hunter2@db.example.org/x", "postgres://bob:[masked:password]@db.example.org/x"),
        ("mysql+pymysql://u:p@ss/w0rd@h:3306/db", "mysql+pymysql://u:[masked:password]@h:3306/db"),
        ("redis://:s3cret@localhost:6379", "redis://:[masked:password]@localhost:6379"),
        ("https://user:pa:ss@host/a?b=1", "https://user:[masked:password]@host/a?b=1"),
        ("Server=db;User Id=sa;Password=Str0ng!Pass;Encrypt=yes", "Server=db;User Id=sa;Password=[masked:password];Encrypt=yes"),
        ("host=db password='a b' dbname=x", "host=db password='[masked:password]' dbname=x"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [masked:authorization]"),
        (f"Authorization: Bearer {RUN}", "Authorization: Bearer [masked:authorization]"),
        (f"send Bearer {RUN} along", "send Bearer [masked:bearer-token] along"),
        ("curl -u bob:hunter2 https://x", "curl -u bob:[masked:password] https://x"),
        ("Cookie: session=abcdef123; Path=/home", "Cookie: session=[masked:cookie]; Path=/home"),
    ],
)
def test_only_the_secret_part_is_replaced(text: str, masked: str) -> None:
    assert mask(text)[0] == masked


@pytest.mark.parametrize(
    "block",
    [
        f"-----BEGIN PRIVATE KEY-----\n{BODY}\nabcd==\n-----END PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{BODY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}\n{BODY}",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{BODY}\n=abcd",
        f"-----BEGIN EC PRIVATE KEY-----\\n{BODY}\\nabcd=\\n-----END EC PRIVATE KEY-----",
        f"{BODY}\n{BODY}\nabcd==\n-----END PRIVATE KEY-----",
        f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 2\n{BODY}\nAAAAIabc1234\nPrivate-MAC: 00ff11",
    ],
)
def test_private_keys_are_masked_also_when_cut(block: str) -> None:
    masked, notes = mask(f"Before.\n{block}\nIt was the key.")
    assert notes == ("masked:private-key",)
    assert BODY[:16] not in masked
    assert masked.startswith("Before.\n")
    assert masked.endswith("\nIt was the key.")


@pytest.mark.parametrize(
    "prose",
    [
        "the password policy changed",
        "password: required",
        "He forgot his password and asked for a reset.",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "uuid 0190163d-8694-739b-aea5-966c26f8ad91",
        "max_tokens: 4096, prompt_token=17",
        "the token count is 512 tokens",
        "A JWT token: a signed JSON object",
        "secret: never skip the tests",
        "password = getpass.getpass()",
        "token = os.environ['TOKEN']",
        "def login(password: str = None, token=access_token)",
        "the key is under the mat, keyboard: qwerty, monkey: 12abc",
        "primary key: id42abc",
        "API key: see the vault",
        "task-management-system-for-2024-teams",
        "https://example.org:8080/@scope/pkg and http://host:80/a@b",
        "git@github.com:org/repo.git, ssh://git@host:22/x",
        "bearer tokens expire after 15 minutes",
        "password is at least 12 characters, password is sha256-hashed",
        "password=${DB_PASSWORD} password=*** password: <yours> token=$TOKEN password='%s'",
        "Secret Santa: 24 December; the token bucket: 10 r/s",
        "cookie recipe: 200g butter",
        "Authorization: required for all routes",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "the marker -----BEGIN PRIVATE KEY----- opens such a file",
    ],
)
def test_prose_and_code_about_secrets_stay(prose: str) -> None:
    assert mask(prose) == (prose, ())


def test_values_are_masked_under_secret_keys_in_keys_and_in_depth() -> None:
    value = {
        "apiKey": "anything",
        "count": 3,
        "nested": [{"db_password": ["one", {"inner": 42}], "secret": True}],
        f"note ghp_{RUN[:36]}": "postgres://u:pw@h/db",
        "max_tokens": 100,
        "token": None,
    }
    masked, notes = mask_value(value)
    assert masked == {
        "apiKey": "[masked:secret]",
        "count": 3,
        "nested": [{"db_password": ["[masked:secret]", {"inner": "[masked:secret]"}], "secret": True}],
        "note [masked:github-token]": "postgres://u:[masked:password]@h/db",
        "max_tokens": 100,
        "token": None,
    }
    assert set(notes) == {"masked:secret", "masked:github-token", "masked:password"}


def test_keys_that_become_equal_are_both_kept() -> None:
    masked, _ = mask_value({f"ghp_{RUN[:30]}": 1, f"ghp_{RUN[:29]}": 2})
    assert sorted(masked.values()) == [1, 2]


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "apiKey", "x-auth-token", "client_secret", "user.passphrase", "aws_secret_access_key"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["max_tokens", "password_policy", "key", "tokenizer", "secretary", "author", "primary_key"])
def test_other_names_are_not(name: str) -> None:
    assert not names_secret(name)
