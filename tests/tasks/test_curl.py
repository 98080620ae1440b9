"""What a command line makes curl 7.88 or wget 1.21 send: tables that were held against both."""

import shlex
import time
from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.curl import METHODS, NotHttp, Request, parse

URL = "http://svc.internal/ping"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
KEPT = "the output is kept with the run instead of in "
PIECES = [
    "curl ", "wget ", URL, " ", "-", "--", "d", "X", "H", "=", "'", '"', "\\", "@", ":", ">", "&",
    "2", "data", "header", "user", "json", "nv", "[", "{", "#", ";", "%", "m", "retry", "9", ".",
]  # fmt: skip
SECURE, AGENT = "certificates are verified all the same", "User-Agent is set by the caller itself"
FILE = "it sends what a file or the standard input holds"
fuzz = settings(max_examples=200, deadline=None, database=None)


def read(command):
    """What differs from a GET without anything."""
    request = parse(command)
    bare = Request(method="GET", url=URL)
    return {
        field.name: getattr(request, field.name)
        for field in fields(Request)
        if getattr(request, field.name) != getattr(bare, field.name)
    }


def refused(command):
    with pytest.raises(NotHttp) as caught:
        parse(command)
    return str(caught.value)


# --- the shell ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        f"curl {URL}",
        f"  /usr/bin/curl\t'{URL}'  ",
        f'./curl "{URL}"',
        "curl http://svc.internal/'pi'\"n\"\\g",
        f"curl \\\n {URL}",
        f"curl {URL} # every minute; or so",
        f"curl {URL} >/dev/null 2>&1",
        f"curl {URL} > /dev/null 2> /dev/null",
        f"curl {URL} &>/dev/null",
        f"2>&1 >>/dev/null curl {URL} >&2 2>&-",
    ],
)
def test_quotes_comments_and_output_thrown_away_leave_the_request_as_it_is(command):
    assert read(command) == {}


def test_output_that_a_file_would_get_is_told_of():
    assert read(f"curl {URL} >> /var/log/ping.log 2>&1")["notes"] == (f"{KEPT}/var/log/ping.log",)
    assert read(f"curl {URL} 2>'a b'")["notes"] == (f"{KEPT}a b",)
    assert read(f"curl {URL}2>log") == {"url": f"{URL}2", "notes": (f"{KEPT}log",)}


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        (f"curl {URL} | logger", "|"),
        (f"cd /srv && curl {URL}", "&&"),
        (f"curl {URL} || true", "||"),
        (f"curl {URL}; true", ";"),
        (f"curl {URL}?a=1&b=2", "&"),
        (f"curl {URL} &", "&"),
        (f"(curl {URL})", "("),
        (f"curl {URL} < body", "<"),
        (f"curl -d @- {URL} <<X", "<<"),
        (f"curl {URL}\ntrue", "a line break"),
        (f"curl {URL}/$HOME", "$"),
        (f'curl "{URL}/$(date)"', "$"),
        (f"curl {URL}/$(date)", "$("),
        (f"curl {URL}/`date`", "`"),
        (f'curl "{URL}/`date`"', "`"),
    ],
)
def test_what_needs_a_shell_is_refused(command, sign):
    assert refused(command) == f"it needs a shell: {sign}"


def test_within_quotes_and_after_backslashes_nothing_needs_a_shell():
    assert read(f"curl '{URL}?a=$b&c=`d`'")["url"] == f"{URL}?a=$b&c=`d`"
    assert read(f'curl "{URL}?a=1&b=(2);|"')["url"] == f"{URL}?a=1&b=(2);|"
    assert read(f'curl -d "\\$x \\"y\\" \\\\ \\z" {URL}')["body"] == '$x "y" \\ \\z'
    assert read(f"curl {URL}?a=1\\&b=\\$2")["url"] == f"{URL}?a=1&b=$2"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("", "it is empty"),
        ("# curl", "it is empty"),
        ("/usr/local/bin/backup.sh --all", "it runs /usr/local/bin/backup.sh"),
        ("php artisan schedule:run", "it runs php"),
        ("curl-config", "it runs curl-config"),
        (f"nice -n 10 curl {URL}", "it runs something else through nice"),
        (f"timeout 30 curl {URL}", "it runs something else through timeout"),
        (f"/usr/bin/flock -n /tmp/x curl {URL}", "it runs something else through /usr/bin/flock"),
        (f"sh -c 'curl {URL}'", "it runs something else through sh"),
        (f"https_proxy=http://p:1 curl {URL}", "it sets the variable https_proxy"),
        (f"curl '{URL}", "it ends within quotes"),
        (f'curl "{URL}', "it ends within quotes"),
        (f"curl {URL} \\", "it ends within quotes"),
        (f"curl {URL} >", "nothing follows >"),
        (f"curl {URL} > > x", "nothing follows >"),
    ],
)
def test_any_other_command_is_named(command, reason):
    assert refused(command) == reason


@fuzz
@given(st.lists(st.text(st.sampled_from("ab '\"\\#=-\té"), min_size=1, max_size=12), max_size=4))
def test_any_words_survive_quoting(words):
    quoted = " ".join(f"--data-raw {shlex.quote(word)}" for word in words)
    assert parse(f"curl {URL} {quoted}").body == "&".join(words)


@fuzz
@given(st.text() | st.lists(st.sampled_from(PIECES)).map(lambda parts: "curl " + "".join(parts)))
def test_any_text_is_read_or_refused_in_words(command):
    with suppress(NotHttp):
        request = parse(command)
        assert request.method in METHODS
        assert request.url.startswith(("http", "HTTP"))


@pytest.mark.parametrize(
    "unit", ["'", '"', "\\", "\\a", "'a'", '"a" ', ">a ", "-a", "a=", "[", " "]
)
def test_a_hundred_kilobytes_of_anything_are_read_or_refused_at_once(unit):
    started = time.process_time()
    with pytest.raises(NotHttp):
        parse(f"curl {URL} " + unit * (100_000 // len(unit)) + " $")
    assert time.process_time() - started < 1


# --- curl -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        # methods and bodies
        ("-X DELETE", {"method": "DELETE"}),
        ("--request=put", {"method": "PUT"}),
        ("-I", {"method": "HEAD"}),
        ("-d a=1 -d b=2", {"method": "POST", "body": "a=1&b=2", "headers": FORM}),
        ("-d'x=1' -XPATCH", {"method": "PATCH", "body": "x=1", "headers": FORM}),
        ("-d ''", {"method": "POST", "headers": FORM}),
        (
            "--data-raw @a --data-ascii b --data-binary c",
            {"method": "POST", "body": "@a&b&c", "headers": FORM},
        ),
        (
            "--data-urlencode 'q=b c&é~' --data-urlencode '=x y' --data-urlencode z/w",
            {"method": "POST", "body": "q=b+c%26%C3%A9~&x+y&z%2Fw", "headers": FORM},
        ),
        (
            "-d a -d b --json c --json d -d e",
            {
                "method": "POST",
                "body": "a&bcd&e",
                "headers": {"Content-Type": "application/json", "Accept": "application/json"},
            },
        ),
        ("-G -d a=1 --data-urlencode 'q=b c'", {"url": f"{URL}?a=1&q=b+c"}),
        ("-IG -d a", {"method": "HEAD", "url": f"{URL}?a"}),
        ("-G -d ''", {}),
        # headers
        ("-H 'X-A:  b: c ' -H 'X-B;'", {"headers": {"X-A": "b: c", "X-B": ""}}),
        ("-H 'Accept:' -e 'http://a/;auto'", {"headers": {"Referer": "http://a/"}}),
        ("-H 'X-A: 1' -H 'x-a: 2'", {"headers": {"x-a": "1, 2"}}),
        ("-H 'Cookie: a=1' -H 'Cookie: b=2' -b c=3", {"headers": {"Cookie": "a=1; b=2"}}),
        ("-b a=1 --cookie 'b=2; c=3'", {"headers": {"Cookie": "a=1; b=2; c=3"}}),
        ("-u me:a:b", {"headers": {"Authorization": "Basic bWU6YTpi"}}),
        ("-u me: --basic", {"headers": {"Authorization": "Basic bWU6"}}),
        ("--oauth2-bearer abc -u me:pw", {"headers": {"Authorization": "Bearer abc"}}),
        ("-u a:b -H 'authorization: mine'", {"headers": {"authorization": "mine"}}),
        (
            "-d '{}' -H 'content-type: text/plain'",
            {"method": "POST", "body": "{}", "headers": {"content-type": "text/plain"}},
        ),
        # how it is called
        ("-m 10 --connect-timeout 2.5", {"timeout_seconds": 10, "connect_timeout_seconds": 2.5}),
        ("-fsSm10", {"timeout_seconds": 10}),
        ("-sSfL --max-time .05", {"follow_redirects": True, "timeout_seconds": 0.1}),
        ("-m 86401", {"timeout_seconds": 86400, "notes": ("--max-time 86401 becomes 86400",)}),
        ("-m 0 --retry-delay 0 --retry 0", {"max_retries": 0}),
        ("-L --max-redirs 0", {}),
        ("--retry 3 --retry-delay 20", {"max_retries": 3, "retry_delay": 20}),
        ("--retry 999", {"max_retries": 100, "notes": ("--retry 999 becomes 100",)}),
        # what is read over
        ("-s -S -f -v -i -# -N -q -4 -6 -0 -1 -R -J", {}),
        ("--silent --show-error --fail --fail-with-body --verbose --include --compressed", {}),
        ("--no-progress-meter --http1.1 --http2 --tlsv1.2 --retry-connrefused", {}),
        ("-so/dev/null -w '%{http_code}' -D - --output=/dev/null", {}),
    ],
)  # fmt: skip
def test_options_of_curl_say_what_is_sent(options, found):
    assert read(f"curl {options} {URL}") == found
    assert read(f"curl {URL} {options}") == found


@pytest.mark.parametrize(
    ("command", "url"),
    [
        ("curl svc.internal", "http://svc.internal"),
        ("curl svc.internal:8080/a?u=http://x/", "http://svc.internal:8080/a?u=http://x/"),
        ("curl --url https://svc.internal/", "https://svc.internal/"),
        ("curl -s -- HTTPS://svc.internal/#a", "HTTPS://svc.internal/#a"),
        ("curl -G -d b=2 'svc.internal/?a=1#c'", "http://svc.internal/?a=1&b=2#c"),
        ("curl http://[::1]:8080/", "http://[::1]:8080/"),
        ("curl http://svc.internal/?ids[]=1", "http://svc.internal/?ids[]=1"),
        ("curl -g 'http://svc.internal/{a,b}[1-3]'", "http://svc.internal/{a,b}[1-3]"),
        ("curl http://bücher.example.com/ä", "http://bücher.example.com/ä"),
    ],
)
def test_the_url_is_kept_as_it_is_and_gets_a_scheme(command, url):
    assert parse(command).url == url


def test_a_user_and_password_in_the_url_become_a_header():
    found = {"headers": {"Authorization": "Basic bWVAeDpw"}}
    assert read("curl http://me%40x:p@svc.internal/ping") == found
    assert read("wget -O- http://me%40x:p@svc.internal/ping") == found | {"follow_redirects": True}
    login = {"Authorization": "Basic YTpi"}
    assert read("curl -u a:b http://me:p@svc.internal/ping") == {"headers": login}


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ("-k", [SECURE]),
        ("-sk -A me", [SECURE, AGENT]),
        ("-H 'Host: x' -H 'X-Cronjob-Run-Id: 1'", [
            "Host is set by the caller itself", "X-Cronjob-Run-Id is set by the caller itself",
        ]),
        ("-H 'user-agent: a' -H 'user-agent: b'", ["user-agent is set by the caller itself"]),
        ("-H 'Content-Type:'", ["a body is sent with a Content-Type all the same"]),
        ("-c jar.txt", ["cookies are not kept"]),
        ("-o page.html", [f"{KEPT}page.html"]),
        ("-sSO", [f"{KEPT}a file"]),
    ],
)  # fmt: skip
def test_what_does_not_carry_over_is_noted(options, notes):
    assert read(f"curl {options} {URL}") == {"notes": tuple(notes)}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("-F a=1", "-F: it sends a form in parts"),
        ("--form a=1", "--form: it sends a form in parts"),
        ("-T file", "-T: it sends a file"),
        ("-x http://proxy:1", "-x: it goes through a proxy"),
        ("-sK file", "-K: it has options in a file"),
        ("--cert=a", "--cert: it shows a certificate of its own"),
        ("--key a", "--key: it shows a certificate of its own"),
        ("-E a", "-E: it shows a certificate of its own"),
        ("--unix-socket /run/x", "--unix-socket: it calls no host"),
        ("-n", "-n: it has its password in a file"),
        (f"--next {URL}", "--next: it makes more than one request"),
        ("-d @file", f"--data: {FILE}"),
        ("--json @-", f"--json: {FILE}"),
        ("--data-urlencode a@b", f"--data-urlencode: {FILE}"),
        ("-b jar.txt", "--cookie: its cookies are in a file"),
        ("-u me", "--user: it asks for the password"),
        ("-H @file", "@file is not a header"),
        ("-I -d a", "it asks for the head alone and sends a body"),
        ("-X PURGE", f"the method PURGE is none of {', '.join(METHODS)}"),
        ("-m 1s", "--max-time takes a number, not 1s"),
        ("--retry -1", "--retry takes a number, not -1"),
        ("--resolve a:80:b", "--resolve: it is not understood"),
        ("-sQ", "-Q: it is not understood"),
        ("-2", "-2: it is not understood"),
        ("--silent=yes", "--silent: it takes no value"),
        ("-H", "-H is without its value"),
        (f"--url {URL}", "it calls more than one URL"),
        ("http://other.internal/", "it calls more than one URL"),
        ("-G -d 'a b'", "its URL holds a space or another character that no URL can hold"),
    ],
)  # fmt: skip
def test_what_curl_does_beyond_one_plain_request_is_refused(options, reason):
    assert refused(f"curl {URL} {options}") == reason


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "it names no URL"),
        ("''", "it names no URL"),
        ("-s", "it names no URL"),
        ("ftp://svc.internal/", "its URL does not begin with http:// or https:// and a host"),
        ("http:///path", "its URL does not begin with http:// or https:// and a host"),
        ("svc.internal:port/", "its URL is none: Port could not be cast"),
        ("'http://svc.internal/a b'", "its URL holds a space or another character"),
        ("'http://svc.internal/a\\b'", "its URL holds a space or another character"),
        ("http://svc.internal/[1-3]", "its URL is a pattern that stands for several"),
        ("http://svc.internal/{a,b}", "its URL is a pattern that stands for several"),
        ("http://svc.internal/[::1]", "its URL is a pattern that stands for several"),
    ],
)
def test_a_url_that_is_none_or_several_is_refused(url, reason):
    assert refused(f"curl {url}").startswith(reason)


# --- wget -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("-q -O -", {}),
        ("-qO- -nv -v -d -c -N -nc -S -4", {}),
        ("-qO /dev/null -o log -a log -P dir --no-cache --quiet --no-verbose -w 3", {}),
        ("--spider", {"method": "HEAD"}),
        ("-O- --post-data 'a=1&b=2'", {"method": "POST", "body": "a=1&b=2", "headers": FORM}),
        ("-O- --post-data=", {"method": "POST", "headers": FORM}),
        ("-O- --method=put --body-data x", {"method": "PUT", "body": "x", "headers": FORM}),
        ("-O- --header 'A: 1' --header='A: 2'", {"headers": {"A": "2"}}),
        ("-O- --user=me --password=p", {"headers": {"Authorization": "Basic bWU6cA=="}}),
        ("-O- --http-user=me", {"headers": {"Authorization": "Basic bWU6"}}),
        ("-O- --referer http://a/", {"headers": {"Referer": "http://a/"}}),
        ("-O- --connect-timeout=3", {"connect_timeout_seconds": 3}),
        ("-O- -T 30 -t3", {
            "timeout_seconds": 30, "max_retries": 2,
            "notes": ("--timeout is for the whole call, not for each silence",),
        }),
        ("-O- --tries=1", {"max_retries": 0}),
        ("-O- -t 0", {"max_retries": 100, "notes": ("--tries 0 becomes 100 retries",)}),
        ("-O- --max-redirect=0", {"follow_redirects": False}),
        ("-O- --no-check-certificate", {"notes": (SECURE,)}),
        ("-O- -U me", {"notes": (AGENT,)}),
        ("-q", {"notes": (f"{KEPT}a file",)}),
        ("-O page.html", {"notes": (f"{KEPT}page.html",)}),
    ],
)  # fmt: skip
def test_options_of_wget_say_what_is_sent(options, found):
    follows = {"follow_redirects": True} | found
    assert read(f"/usr/bin/wget {options} {URL}") == {
        k: v for k, v in follows.items() if v is not False
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--post-file=a", "--post-file: it sends a file"),
        ("--body-file a", "--body-file: it sends a file"),
        ("-i list", "-i: it has its URLs in a file"),
        ("-qr", "-r: it calls more than one URL"),
        ("-m", "-m: it calls more than one URL"),
        ("http://other.internal/", "it calls more than one URL"),
        ("--warc-file=a", "--warc-file: it is not understood"),
        ("-e robots=off", "-e: it is not understood"),
    ],
)
def test_what_wget_does_beyond_one_plain_request_is_refused(options, reason):
    assert refused(f"wget {URL} {options}") == reason
