"""Settings from the environment: read, checked and explained in one place."""

import ipaddress
import json
import os
import re
import tempfile
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from cronjob.lib import masking

T = TypeVar("T")
N = TypeVar("N", int, float)
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class BadSetting(ImproperlyConfigured):
    """A setting holds a value that nothing can be done with."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One setting, as `manage.py config` and the docs list it."""

    name: str
    default: str
    meaning: str
    value: object
    secret: bool

    @property
    def shown(self) -> str:
        """The value a person may see."""
        if self.value in (None, "", [], (), {}):
            return "{}" if self.value == {} else ""
        return masked(self.value) if self.secret else plain(self.value)


def plain(value: object) -> str:
    """The value as one would write it in the environment."""
    match value:
        case bool():
            return "1" if value else "0"
        case dict():
            return json.dumps(value)
        case list() | tuple():
            return ",".join(str(item) for item in value)
        case float() if value.is_integer():
            return str(int(value))
    return str(value)


def masked(value: object) -> str:
    """A URL keeps everything but its password; any other secret is a row of stars."""
    return masking.password(value) if isinstance(value, str) else masking.MASK


class Environ:
    """Reads variables by kind and remembers each as an `Option`."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.options: dict[str, Option] = {}

    def read(
        self,
        name: str,
        default: str,
        parse: Callable[[str], T],
        meaning: str,
        *,
        secret: bool = False,
    ) -> T:
        text = self.variables.get(name, default).strip()
        try:
            value = parse(text)
        except ValueError as error:
            given = masking.MASK if secret or "@" in text else repr(text)
            remedy = f"Correct it, or leave it out for the default {default!r}."
            raise BadSetting(f"{name}={given}: {error}. {remedy}") from error
        self.options[name] = Option(
            name=name,
            default=default,
            meaning=meaning,
            value=value,
            secret=secret,
        )
        return value

    def text(self, name: str, default: str, meaning: str, *, secret: bool = False) -> str:
        return self.read(name, default, str, meaning, secret=secret)

    def flag(self, name: str, default: str, meaning: str) -> bool:
        return self.read(name, default, flag, meaning)

    def integer(
        self, name: str, default: str, meaning: str, *, least: int = 0, most: int = 2**31 - 1
    ) -> int:
        return self.read(name, default, lambda text: number(int, text, least, most), meaning)

    def number(
        self, name: str, default: str, meaning: str, *, least: float = 0, most: float = 2**31 - 1
    ) -> float:
        return self.read(name, default, lambda text: number(float, text, least, most), meaning)

    def choice(self, name: str, default: str, meaning: str, *, among: Iterable[str]) -> str:
        return self.read(name, default, lambda text: choice(text, tuple(among)), meaning)

    def names(self, name: str, default: str, meaning: str) -> list[str]:
        return self.read(name, default, words, meaning)

    def networks(self, name: str, default: str, meaning: str) -> list[Network]:
        return self.read(name, default, networks, meaning)

    def strings(self, name: str, default: str, meaning: str) -> dict[str, str]:
        """A JSON object of strings; masked, since headers may carry credentials."""
        return self.read(name, default, strings, meaning, secret=True)

    def unknown(self, prefix: str) -> list[str]:
        """Variables that look like ours and are not."""
        return sorted(n for n in self.variables if n.startswith(prefix) and n not in self.options)


def flag(text: str) -> bool:
    match text.lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off" | "":
            return False
    raise ValueError("must be 1 or 0")


def number(kind: Callable[[str], N], text: str, least: N, most: N) -> N:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise ValueError(f"must be a number from {least} to {most}")
    return value


def choice(text: str, among: tuple[str, ...]) -> str:
    if text.lower() not in among:
        raise ValueError(f"must be one of {', '.join(filter(None, among))}")
    return text.lower()


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def networks(text: str) -> list[Network]:
    try:
        return [ipaddress.ip_network(word) for word in words(text)]
    except ValueError as error:
        raise ValueError(f"must be CIDRs such as 10.0.0.0/8, by commas ({error})") from error


def strings(text: str) -> dict[str, str]:
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"must be a JSON object ({error})") from error
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError('must be a JSON object of strings, such as {"X-Team":"billing"}')
    return value


def zone(text: str) -> str:
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("must be an IANA time zone such as Europe/Berlin") from error
    return text


def origins(text: str) -> list[str]:
    if not all(re.fullmatch(r"https?://[^/\s]+", word) for word in words(text)):
        raise ValueError("must be origins such as https://cronjob.example.com, by commas")
    return words(text)


def targets(text: str) -> list[str]:
    """CIDRs, addresses and host globs; what looks like an address must be one."""
    for word in words(text):
        if re.fullmatch(r"[0-9a-fA-F:.]*/.*|[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]*", word):
            networks(word)
        elif not re.fullmatch(r"[A-Za-z0-9*?._-]+", word):
            raise ValueError("must be CIDRs such as 10.0.0.0/8 and hosts such as *.corp, by commas")
    return words(text)


def redis(text: str) -> str:
    for word in words(text):
        url = urlsplit(word) if re.fullmatch(r"rediss?://[^\s/\[\]]+(/\d*)?", word) else None
        if url is None or not url.hostname:
            raise ValueError("must be redis://host:port/0, or rediss:// for TLS")
    return text


def origin(text: str) -> str:
    """An http(s) origin with an optional sub-path, without the trailing slash."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        host = None
    if text and (not host or url.scheme not in ("http", "https")):
        raise ValueError("must be an origin such as https://cronjob.example.com")
    if "@" in url.netloc or url.query or url.fragment:
        raise ValueError("must be an origin without credentials, query or fragment")
    return text.rstrip("/")


def directory(path: Path) -> Path:
    """Make `path` ready to be written to; only its owner may look inside."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        problem = error.strerror or str(error)
    else:
        if os.access(path, os.W_OK | os.X_OK):
            return path
        problem = "no permission to write"
    remedy = "Name a directory that this user may write to."
    raise BadSetting(f"CRONJOB_DATA_DIR={path}: cannot be used ({problem}). {remedy}")


def write_privately(path: Path, text: str) -> None:
    """A new file that only its owner may read, whole or not there; one that is there stays."""
    try:
        handle, draft = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            os.unlink(draft)
    except OSError as error:
        remedy = "Make room, or name another directory by CRONJOB_DATA_DIR."
        raise BadSetting(f"cannot write {path} ({error.strerror}). {remedy}") from error


def secret_key(key: str, file: str, data_dir: Path, *, debug: bool) -> str:
    """The key as given, or read from its file; empty where there is none yet."""
    path = Path(file) if file else data_dir / "secret_key"
    if key:
        return key
    try:
        return path.read_text().strip()
    except (FileNotFoundError, NotADirectoryError) as error:
        if file:
            raise BadSetting(f"CRONJOB_SECRET_KEY_FILE={file}: there is no such file.") from error
    except (OSError, UnicodeDecodeError) as error:
        remedy = "Let this user read it, or name another by CRONJOB_SECRET_KEY_FILE."
        raise BadSetting(f"the secret key in {path} cannot be read ({error}). {remedy}") from error
    return "insecure-for-debugging-only" if debug else ""
