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
        (f"mnk_{RUN[:43]}", "api-key"),
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
        *(
            (f"gl{name}-{RUN[:20]}", "gitlab-token")
            for name in ("oas", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "soat", "wt")
        ),
        (f"GR1348941{RUN[:20]}", "gitlab-token"),
        (f"SK{'0a1b2c3d' * 4}", "twilio-key"),
        (f"AC{'0a1b2c3d' * 4}", "twilio-key"),
        (f"dop_v1_{'0a1b2c3d' * 8}", "digitalocean-token"),
        (f"GOCSPX-{RUN[:28]}", "google-secret"),
        (f"1//0{RUN[:40]}", "google-token"),
        (f"abc8Q~{RUN[:34]}", "azure-secret"),
        (f"M{RUN[:23]}.{RUN[:6]}.{RUN[:38]}", "discord-token"),
        (f"discord.com/api/webhooks/{'1234567890' * 2}/{RUN}", "discord-webhook"),
        (f"AGE-SECRET-KEY-1{'Q7ZR2XW9' * 7}", "age-key"),
        (f"tskey-auth-{RUN[:20]}", "tailscale-key"),
        (f"hvs.{RUN[:30]}", "vault-token"),
        (f"lin_api_{RUN[:40]}", "api-key"),
        (f"lin_oauth_{RUN[:40]}", "api-key"),
        (f"ntn_{RUN[:46]}", "api-key"),
        (f"secret_{RUN[:43]}", "api-key"),
        (f"PMAK-{RUN[:24]}-{RUN[:34]}", "api-key"),
        (f"glsa_{RUN[:32]}_0a1b2c3d", "grafana-token"),
        (f"sntrys_{RUN}", "sentry-token"),
        (f"HRKU-{RUN[:36]}", "heroku-key"),
        (f"ATBB{RUN[:32]}", "bitbucket-token"),
        (f"CCIPAT_{RUN[:40]}", "api-key"),
        (f"lsv2_pt_{RUN[:32]}_0a1b2c3d4e", "api-key"),
        (f"tvly-{RUN[:32]}", "api-key"),
        (f"re_{RUN[:8]}_{RUN[:24]}", "api-key"),
        (f"rzp_live_{RUN[:14]}", "api-key"),
        (f"pat-na1-0a1b2c3d-{RUN[:27]}", "api-key"),
        (f"dt0c01.{RUN[:24]}.{RUN}{RUN[:8]}", "api-key"),
        (f"squ_{'0a1b2c3d' * 5}", "api-key"),
        (f"syt_{RUN[:30]}", "matrix-token"),
        (f"LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt{RUN}", "private-key"),
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
        ("Authorization:\nPassword: a0000000000007Q", "Authorization:\nPassword: [masked:password]"),
        (f"send Bearer {RUN} along", "send Bearer [masked:bearer-token] along"),
        ("curl -u bob:hunter2 https://x", "curl -u bob:[masked:password] https://x"),
        ("Cookie: session=abcdef123; Path=/home", "Cookie: session=[masked:cookie]; Path=/home"),
    ],
)
def test_only_the_secret_part_is_replaced(text: str, masked: str) -> None:
    assert mask(text)[0] == masked


W = "swordfish"
X = "Zk4wQ9tr"


@pytest.mark.parametrize(
    "frame",
    [
        "sshpass -p {} ssh root@host", "sshpass -p{} ssh host", "sshpass -e -p '{}' scp a b", "mysql -p{} db", "mysql -u root -p{} -h host",
        "mysqldump --password={} db", "mysql -u root -p'{}' db", "mariadb -uroot -p{}", 'psql "password={}"', "psql 'host=h password={} user=u'",
        "PGPASSWORD={} psql -h db", "PGPASSWORD='{}' psql", "curl -u user:{} https://h", "curl --user 'user:{}' h", "curl -X POST -U p:{} h",
        "docker login -u bob -p {} reg.io", "mongosh -u a -p {}", "redis-cli -h h -a {} ping", "unzip -P {} a.zip", "7z x -p{} a.7z",
        "openssl rsa -in k -passin pass:{}", "echo {} | sudo -S apt update", "echo 'bob:{}' | chpasswd", "smbclient //h/s -U bob%{}",
        "IDENTIFIED BY '{}'", "ALTER USER bob WITH PASSWORD '{}';",
        "machine h login u password {}", "machine api.example.org\n  login u\n  password {}\n", "default login anonymous password {}",
        "db.example.org:5432:mydb:bob:{}",
        "<password>{}</password>", "<password>\n  {}\n</password>", '<db:password type="plain">{}</db:password>', "<dbPassword>{}</dbPassword>",
        "<password><![CDATA[{}]]></password>", '<property name="password" value="{}"/>', '<entry key="db.password">{}</entry>',
        "<key>password</key>\n<string>{}</string>", "<tr><td>password</td><td>{}</td></tr>", "<th>Password</th>\n  <td><code>{}</code></td>",
        "<dt>Password</dt><dd>{}</dd>", "<b>Password:</b> {}", "<li>Password: <code>{}</code></li>",
        "| password | {} |", "| **Password** | `{}` |", "| user | password |\n|------|----------|\n| bob | {} |\n| eve | none |",
        " user | password \n------+----------\n bob  | {}\n", "user,password\nbob,{}\n",
        '{{"name": "DB_PASSWORD", "value": "{}"}}', "- name: DB_PASSWORD\n  value: {}", "password: |\n  {}\n", "password: >-\n    {}\n",
        "passwords:\n  - {}", '"passwords": ["{}"]', 'password = """{}"""', "[db]\npassword = {}\nuser = x", "password: '{}' # comment",
        'password: str = "{}"', 'setPassword("{}")', "password (wifi): {}", "Passwort f\u00fcr das NAS: {}",
        "user: bob, pass: {}", "login bob / pass: {}", "pass: {}\n", "pass={}", "DB_PASS={}", "pw: {}", "PW = {}", "p/w: {}", "mdp : {}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("secret", [W, X])
def test_passwords_in_commands_files_and_tables_are_masked(frame: str, secret: str) -> None:
    masked, notes = mask(frame.format(secret))
    assert masked == frame.format("[masked:password]")
    assert notes == ("masked:password",)


@pytest.mark.parametrize(
    "text",
    [f"The password is \u201c{X}\u201d.", f"change the password to {X}.", f"pw ist {X}", f"Passwort auf {X} gesetzt", f"Has\u0142o to {X}",
     f"A senha do wifi \u00e9 {X}", f"\u043f\u0430\u0440\u043e\u043b\u044c \u2014 {X}", f"\u30d1\u30b9\u30ef\u30fc\u30c9\u306f{X}\u3067\u3059",
     f"\ube44\ubc00\ubc88\ud638\ub294 {X} \uc785\ub2c8\ub2e4", f"\u5bc6\u7801\u662f{X}\u3002\u597d", f"login bob password {X}"],
)  # fmt: skip
def test_passwords_told_in_a_sentence_are_masked(text: str) -> None:
    assert mask(text)[0] == text.replace(X, "[masked:password]")


PHRASE = " ".join(["apple", "river", "stone", "cloud"] * 3)
BITLOCKER = "-".join(["471147"] * 8)


@pytest.mark.parametrize(
    ("text", "secrets", "kind"),
    [
        *((text, ("4711",), "pin") for text in ("PIN is 4711", "My PIN is 4711.", "SIM-PIN: 4711", "the pin for the card is 4711",
                                                 "Die PIN lautet 4711", "PIN-Code: 4711", "card PIN 4711", "simPin = 4711")),
        ("pin: 0815", ("0815",), "pin"),
        ("PIN: 47 11", ("47 11",), "pin"),
        ("PUK: 12345678", ("12345678",), "pin"),
        ("CVV: 471", ("471",), "pin"),
        ("OTP: 471147", ("471147",), "pin"),
        *((text, ("471147",), "code") for text in ("login code: 471147", "2FA code: 471147", "door code is 471147", "Einmalcode: 471147",
                                                   "\u9a8c\u8bc1\u7801\uff1a471147", "c\u00f3digo de seguridad: 471147", "Use code 471147 to sign in.",
                                                   "471147 is your verification code")),
        ("Your verification code is 471 147", ("471 147",), "code"),
        ("recovery code: a4711-b4711", ("a4711-b4711",), "code"),
        ("backup codes:\n1. a4711-xyz12\n2. b4711-xyz12\n\nend", ("a4711-xyz12", "b4711-xyz12"), "code"),
        (f"recovery key: {BITLOCKER}", (BITLOCKER,), "recovery-key"),
        (f"seed phrase: {PHRASE}", (PHRASE,), "recovery-phrase"),
    ],
)  # fmt: skip
def test_pins_and_codes_are_masked(text: str, secrets: tuple[str, ...], kind: str) -> None:
    expected = text
    for secret in secrets:
        expected = expected.replace(secret, f"[masked:{kind}]")
    assert mask(text) == (expected, (f"masked:{kind}",))


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
        "the password is stored in the vault",
        "pass: the ball",
        "I pass: he plays. First pass: lex the input. Second pass: parse it.",
        "12 pass: 3 fail; pass: 1500, fail: 3; tests pass: yes; pass: ok",
        "the boarding pass: gate 12, seat 14A; bypass: true; the mountain pass is 2315 m high",
        "System, Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089",
        "pin the tab, pinned: 2024, PIN 3 of the connector, pin: 13, pin: D4, PIN code required, PIN: see letter",
        "error code is 4040, status code: 2004, zip code: 94107, country code is 4912, the code is 1234 lines long",
        "access code: see the vault, the access code of the door is new",
        "recovery codes are stored in the safe, the recovery phrase is stored elsewhere",
        "mysql -p mydb, mysql --port=3306 -h h, docker run -p 3306:3306 mysql -p3306:3306, mysql -u <user> -p <password>",
        "git commit -p file; mkdir -p /a/b; echo done | sudo tee x; use curl -u for auth",
        "| password | string | The password of the user |",
        "| Field | Type |\n|---|---|\n| password | string |",
        "<td>Password</td><td>Required</td>, <th>Password</th><th>Role</th>",
        '<label for="password">Your password</label><input type="password" name="password">',
        "username,password,email",
        "password\nconfirm_password\nemail",
        "next_page_token=abc123def456",
        "the password to the server is lost; set the password to something new; set password for bob",
        "if password == other: password?: string; const { password } = req.body",
        "class Password:\n    pass\n\ntry:\n    x()\nexcept KeyError:\n    pass\n\nx = 1",
        "token: ${{ secrets.GITHUB_TOKEN }}",
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


def test_long_numbers_under_the_name_of_a_pin_are_masked_and_numbers_of_pins_are_not() -> None:
    assert mask_value({"pin": 4711, "simPin": "0815", "gpio": {"pin": 13}})[0] == {
        "pin": "[masked:secret]",
        "simPin": "[masked:secret]",
        "gpio": {"pin": 13},
    }


def test_keys_that_become_equal_are_both_kept() -> None:
    masked, _ = mask_value({f"ghp_{RUN[:30]}": 1, f"ghp_{RUN[:29]}": 2})
    assert sorted(masked.values()) == [1, 2]


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "apiKey", "x-auth-token", "client_secret", "user.passphrase", "aws_secret_access_key"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "password_policy",
        "key",
        "tokenizer",
        "secretary",
        "author",
        "primary_key",
        "PublicKeyToken",
        "bypass",
        "compass",
    ],
)
def test_other_names_are_not(name: str) -> None:
    assert not names_secret(name)


def test_a_sync_key_of_any_form_is_masked_by_its_variable_and_the_name_of_its_file_is_not() -> None:
    assert mask(f"MNEMOSYNE_SYNC_KEY={RUN[:32]}")[0] == "MNEMOSYNE_SYNC_KEY=[masked:secret]"
    for text in ("MNEMOSYNE_SYNC_KEY_FILE=/run/secrets/sync-1", "async key = primary", "the sync key is in the safe"):
        assert mask(text) == (text, ())
