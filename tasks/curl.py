"""A shell command that is wholly one curl or wget call, and the request that it makes."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote_plus, unquote, urlsplit

from tasks import rules

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
# Beside the rules' own: what every call says of itself, whatever the task says.
OURS = (*rules.OURS, "user-agent", "idempotency-key", "traceparent", "x-ksana-run-id")
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "-")
SECONDS_LEAST, SECONDS_MOST, RETRIES_MOST = 0.1, 86400, 100
WRAPPERS = {  # they do nothing but start another program
    "bash", "chronic", "command", "cronic", "dash", "doas", "env", "eval", "exec", "flock",
    "ionice", "lckdo", "lockf", "nice", "nohup", "runuser", "setlock", "setsid", "sh", "solo",
    "stdbuf", "su", "sudo", "systemd-cat", "systemd-run", "taskset", "time", "timeout", "xargs",
}  # fmt: skip
NOTES = {
    "insecure": "certificates are verified all the same",
    "no-check-certificate": "certificates are verified all the same",
    "user-agent": "User-Agent is set by the caller itself",
    "cookie-jar": "cookies are not kept",
    "timeout": "--timeout is for the whole call, not for each silence",
}

PIECE = re.compile(
    r"""(?P<blank>[ \t]+)
      | (?P<joined>\\\n)
      | '(?P<single>[^']*)'
      | "(?P<double>[^"\\$`]*(?:\\.[^"\\$`]*)*)"
      | "[^"\\$`]*(?:\\.[^"\\$`]*)*(?P<expands>[$`])
      | \\(?P<escaped>.)
      | (?P<output>&>>?|>>|>&|>\||>)
      | (?P<shell>&&|\|\||<<|\$\(|[$`|&;<()\n])
      | (?P<bare>[^ \t'"\\$`|&;<>()\n]+)""",
    re.VERBOSE | re.DOTALL,
)
ESCAPED = re.compile(r'\\([$`"\\])|\\\n')  # within double quotes
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
NOT_IN_URL = re.compile(r"[\s\x00-\x1f\x7f\\]")
IPV6 = re.compile(r"(?i)^([a-z]+://)?([^/?#@]*@)?\[[0-9a-f:.]+\]")
PATTERN = re.compile(r"[{}]|\[(?!\])|(?<!\[)\]")  # curl itself leaves [] alone
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]*)?|\.[0-9]+")


class NotHttp(ValueError):
    """A command that is more than one HTTP request, or something else; it says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What such a command asks for; None is what it does not say."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    timeout_seconds: float | None = None
    connect_timeout_seconds: float | None = None
    follow_redirects: bool = False
    max_retries: int | None = None
    retry_delay: float | None = None
    notes: tuple[str, ...] = ()  # what was understood and does not carry over


def parse(command: str) -> Request:
    """The request that a command makes."""
    words, files = simple_command(command)
    program = words[0].rpartition("/")[2] if words else ""
    if program not in PROGRAMS:
        raise NotHttp(other(words[0][:60]) if words else "it is empty")
    known, request_of = PROGRAMS[program]
    options = Options(given=list(read(words[1:], known)))
    options.notes += [note for name, note in NOTES.items() if options.has(name)]
    for file in files:
        options.note_output(file)
    request = request_of(options)
    if request.method not in METHODS:
        raise NotHttp(f"the method {request.method[:60]} is none of {', '.join(METHODS)}")
    return replace(request, notes=tuple(dict.fromkeys(options.notes)))


def other(program: str) -> str:
    """What a command does that is neither curl nor wget."""
    if variable := re.match(r"[A-Za-z_]\w*(?==)", program):
        return f"it sets the variable {variable[0]}"
    wraps = program.rpartition("/")[2] in WRAPPERS
    return f"it runs something else through {program}" if wraps else f"it runs {program}"


def simple_command(command: str) -> tuple[list[str], list[str]]:
    """The words of a command that needs no shell, and the files that its output goes to."""
    words, files, sign = [], [], ""
    for text, is_sign in pieces(command.strip()):
        if is_sign and sign:
            break
        if sign:
            copies = sign == ">&" and re.fullmatch(r"[0-9]+|-", text)
            files += [] if copies else [text]
        elif not is_sign:
            words.append(text)
        sign = text if is_sign else ""
    if sign:
        raise NotHttp(f"nothing follows {sign}")
    return words, files


def pieces(command: str) -> Iterator[tuple[str, bool]]:
    """The words of a command, and the signs (those with True) that redirect its output."""
    word: str | None = None
    quoted, spot = False, 0
    while spot < len(command):
        found = PIECE.match(command, spot)
        if found is None or found.lastgroup is None:
            raise NotHttp("it ends within quotes")
        kind, text, spot = found.lastgroup, found[found.lastgroup], found.end()
        if kind in ("shell", "expands"):
            raise NotHttp(f"it needs a shell: {text if text != chr(10) else 'a line break'}")
        if kind == "bare" and text.startswith("#") and word is None:
            break  # a comment
        if kind in ("blank", "output"):
            number = kind == "output" and text[0] == ">" and not quoted and str(word).isdigit()
            if word is not None and not number:  # 2 of 2>&1 is no word
                yield word, False
            if kind == "output":
                yield text, True
            word, quoted = None, False
        elif kind != "joined":
            quoted = quoted or kind != "bare"
            word = (word or "") + (ESCAPED.sub(r"\1", text) if kind == "double" else text)
    if word is not None:
        yield word, False


# What is written, such as -X: its long name, and "=" if it takes a value, or why it is refused.
Known = dict[str, tuple[str, str]]


def table(options: Mapping[str, str]) -> Known:
    """Options by why they are refused, if they are. `X,request=` is --request VALUE, also -X."""
    found: Known = {}
    for why, words in options.items():
        for word in words.split():
            *short, name = word.removesuffix("=").split(",")
            kind = "=" if word.endswith("=") else why
            found |= {f"--{name}": (name, kind)} | {f"-{letter}": (name, kind) for letter in short}
    return found


@dataclass(slots=True, kw_only=True)
class Options:
    """What a command line gives, in its order."""

    given: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)

    def all(self, *names: str) -> list[str]:
        return [value for name, value in self.given if name in names]

    def has(self, *names: str) -> bool:
        return bool(self.all(*names))

    def last(self, *names: str) -> str | None:
        return next(iter(self.all(*names)[::-1]), None)

    def number(self, name: str, *, most: float) -> float | None:
        text = self.last(name)
        if text is None:
            return None
        if not NUMBER.fullmatch(text):
            raise NotHttp(f"--{name} takes a number, not {text[:60]}")
        if float(text) > most:
            self.notes.append(f"--{name} {text} becomes {most:g}")
        return min(float(text), most)

    def seconds(self, name: str) -> float | None:
        """None for 0, too: as long as it takes."""
        seconds = self.number(name, most=SECONDS_MOST)
        return max(seconds, SECONDS_LEAST) if seconds else None

    def note_output(self, file: str) -> None:
        if file not in NOWHERE:
            self.notes.append(f"the output is kept with the run instead of in {file[:60]}")


def read(words: list[str], known: Known) -> Iterator[tuple[str, str]]:
    """The options of a command line by their long names; what is none of them is a URL."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            yield from (("url", url) for url in rest)
        elif word.startswith("--"):
            written, equals, value = word.partition("=")
            yield option(written, value if equals else None, known, rest)
        elif word.startswith("-"):
            yield from letters(word[1:], known, rest)
        else:
            yield "url", word


def letters(word: str, known: Known, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Short options in one word; the first that takes a value has what is left of it."""
    while word:
        written = f"-{word[:2]}" if f"-{word[:2]}" in known else f"-{word[0]}"
        word = word[len(written) - 1 :]
        takes = known.get(written, ("", ""))[1] == "="
        yield option(written, word if takes and word else None, known, rest)
        word = "" if takes else word


def option(written: str, value: str | None, known: Known, rest: Iterator[str]) -> tuple[str, str]:
    name, kind = known.get(written, ("", "it is not understood"))
    if kind == "=":
        value = next(rest, None) if value is None else value
        if value is None:
            raise NotHttp(f"{written} is without its value")
    elif kind or value is not None:
        raise NotHttp(f"{written[:60]}: {kind or 'it takes no value'}")
    return name, value or ""


def located(urls: list[str]) -> tuple[str, str | None]:
    """The one URL without the user and password that it may name, and these."""
    if len(urls) != 1 or not urls[0]:
        raise NotHttp("it calls more than one URL" if len(urls) > 1 else "it names no URL")
    url = urls[0] if SCHEME.match(urls[0]) else f"http://{urls[0]}"
    if NOT_IN_URL.search(url):
        raise NotHttp("its URL holds a space or another character that no URL can hold")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise NotHttp(f"its URL is none: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise NotHttp("its URL does not begin with http:// or https:// and a host")
    login, at, place = parts.netloc.rpartition("@")
    user, _, password = map(unquote, login.partition(":"))
    return url.replace(parts.netloc, place, 1) if at else url, f"{user}:{password}" if at else None


def basic(login: str | None) -> str | None:
    return None if login is None else f"Basic {b64encode(login.encode()).decode()}"


def headers_of(
    options: Options, implied: Mapping[str, str | None], *, repeats: bool
) -> dict[str, str]:
    """The headers given, and those that other options imply, which give way to them."""
    found = {name.lower(): (name, value) for name, value in implied.items() if value}
    given = set()
    for line in options.all("header"):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon and not name.endswith(";"):
            raise NotHttp(f"{line[:60]} is not a header")
        name = name if colon else name[:-1]
        lower = name.lower()
        if lower in OURS or lower.startswith("x-cronjob-"):
            options.notes.append(f"{name} is set by the caller itself")
        elif colon and not value:  # takes one away that would be sent
            found.pop(lower, None)
            unsaid = "a body is sent with a Content-Type all the same"
            options.notes += [unsaid] if lower == "content-type" else []
        elif repeats and lower in given:  # sent twice, which means the same as a list
            join = "; " if lower == "cookie" else ", "
            found[lower] = (name, found[lower][1] + join + value)
        else:
            found[lower] = (name, value)
            given.add(lower)
    return dict(found.values())


DATA = ("data", "data-ascii", "data-binary", "data-raw", "data-urlencode", "json")
CURL = table({
    "": "X,request= H,header= d,data= data-ascii= data-binary= data-raw= data-urlencode= json= "
    "G,get u,user= oauth2-bearer= b,cookie= c,cookie-jar= e,referer= A,user-agent= m,max-time= "
    "connect-timeout= retry= retry-delay= retry-max-time= retry-connrefused retry-all-errors "
    "L,location max-redirs= I,head url= s,silent S,show-error f,fail "
    "fail-with-body fail-early v,verbose i,include #,progress-bar no-progress-meter N,no-buffer "
    "q,disable o,output= O,remote-name w,write-out= D,dump-header= J,remote-header-name "
    "R,remote-time create-dirs stderr= compressed k,insecure g,globoff basic 4,ipv4 6,ipv6 "
    "0,http1.0 http1.1 http2 http2-prior-knowledge http3 1,tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 "
    "tls-max= limit-rate= y,speed-time= Y,speed-limit= no-keepalive keepalive-time= tcp-nodelay",
    "it sends a form in parts": "F,form form-string",
    "it sends a file": "T,upload-file",
    "it goes through a proxy": "x,proxy",
    "it has options in a file": "K,config",
    "it shows a certificate of its own": "E,cert key",
    "it calls no host": "unix-socket",
    "it has its password in a file": "n,netrc",
    "it makes more than one request": ":,next",
})  # fmt: skip


def of_curl(options: Options) -> Request:
    url, login = located(options.all("url"))
    if not options.has("globoff") and PATTERN.search(IPV6.sub("", url)):
        raise NotHttp("its URL is a pattern that stands for several")
    body = curl_data(options)
    sends = options.has(*DATA) and not options.has("get")
    if sends and options.has("head"):
        raise NotHttp("it asks for the head alone and sends a body")
    if body and not sends:
        start, mark, fragment = url.partition("#")
        url, _ = located([f"{start}{'&' if '?' in start else '?'}{body}{mark}{fragment}"])
    own = "HEAD" if options.has("head") else "POST" if sends else "GET"
    for file in options.all("output") + ["a file"] * options.has("remote-name"):
        options.note_output(file)
    retries = options.number("retry", most=RETRIES_MOST)
    return Request(
        method=(options.last("request") or own).upper(),
        url=url,
        headers=headers_of(options, curl_headers(options, sends, login), repeats=True),
        body=body if sends else "",
        timeout_seconds=options.seconds("max-time"),
        connect_timeout_seconds=options.seconds("connect-timeout"),
        follow_redirects=options.has("location") and options.last("max-redirs") != "0",
        max_retries=None if retries is None else int(retries),
        retry_delay=options.seconds("retry-delay"),
    )


def curl_data(options: Options) -> str:
    data = ""
    for name, value in options.given:
        if name not in DATA:
            continue
        start, equals, rest = value.partition("=")
        file = "@" in value if name == "data-urlencode" and not equals else value.startswith("@")
        if file and name != "data-raw":
            raise NotHttp(f"--{name}: it sends what a file or the standard input holds")
        if name == "data-urlencode":
            value = (start and f"{start}=") + quote_plus(rest) if equals else quote_plus(value)
        data += value if name == "json" or not data else f"&{value}"
    return data


def curl_headers(options: Options, sends: bool, login: str | None) -> dict[str, str | None]:
    login, bearer = options.last("user") or login, options.last("oauth2-bearer")
    if login is not None and ":" not in login:
        raise NotHttp("--user: it asks for the password")
    cookies = options.all("cookie")
    if not all("=" in cookie for cookie in cookies):
        raise NotHttp("--cookie: its cookies are in a file")
    json = JSON if options.has("json") else None
    return {
        "Content-Type": json or (FORM if sends else None),
        "Accept": json,
        "Authorization": f"Bearer {bearer}" if bearer else basic(login),
        "Cookie": "; ".join(cookies),
        "Referer": (options.last("referer") or "").removesuffix(";auto"),
    }


WGET = table({
    "": "q,quiet v,verbose nv,no-verbose d,debug O,output-document= o,output-file= "
    "a,append-output= P,directory-prefix= T,timeout= connect-timeout= read-timeout= dns-timeout= "
    "t,tries= w,wait= waitretry= retry-connrefused U,user-agent= post-data= method= body-data= "
    "header= referer= user= password= http-user= http-password= auth-no-challenge max-redirect= "
    "spider no-check-certificate secure-protocol= https-only c,continue N,timestamping "
    "nc,no-clobber nd,no-directories S,server-response no-cache no-cookies no-proxy no-hsts "
    "no-dns-cache no-http-keep-alive content-disposition content-on-error progress= "
    "show-progress limit-rate= 4,inet4-only 6,inet6-only",
    "it sends a file": "post-file body-file",
    "it has its URLs in a file": "i,input-file",
    "it calls more than one URL": "r,recursive m,mirror p,page-requisites",
})  # fmt: skip


def of_wget(options: Options) -> Request:
    url, login = located(options.all("url"))
    body = options.last("post-data", "body-data")
    own = "POST" if options.has("post-data") else "HEAD" if options.has("spider") else "GET"
    user, password = options.last("user", "http-user"), options.last("password", "http-password")
    implied = {
        "Content-Type": None if body is None else FORM,
        "Authorization": basic(login if user is None else f"{user}:{password or ''}"),
        "Referer": options.last("referer"),
    }
    options.note_output(options.last("output-document") or ("-" if own == "HEAD" else "a file"))
    tries = options.number("tries", most=RETRIES_MOST + 1)
    if tries == 0:
        options.notes.append(f"--tries 0 becomes {RETRIES_MOST} retries")
    return Request(
        method=(options.last("method") or own).upper(),
        url=url,
        headers=headers_of(options, implied, repeats=False),
        body=body or "",
        timeout_seconds=options.seconds("timeout"),
        connect_timeout_seconds=options.seconds("connect-timeout"),
        follow_redirects=options.last("max-redirect") != "0",
        max_retries=None if tries is None else int(tries or RETRIES_MOST + 1) - 1,
    )


PROGRAMS = {"curl": (CURL, of_curl), "wget": (WGET, of_wget)}
