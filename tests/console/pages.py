"""What a browser makes of the console's pages: what a form sends, what a person reads."""

import html
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db.models import Model
from django.urls import URLResolver

VOID = ("input", "br", "hr", "img", "link", "meta")
BUTTONS = ("submit", "button", "image", "reset", "file")


class Page(HTMLParser):
    """The controls of each form by its id, all text, and the text under each class and label."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.forms: dict[str, list[dict[str, Any]]] = {}
        self.form = self.select = self.area = None
        self.path: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.marked: dict[str, list[str]] = {}
        self.links: list[str] = []
        self.feed(response.content.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        attrs = dict(attrs)
        if tag not in VOID:
            self.path.append((tag, attrs))
            for name in (attrs.get("class") or "").split():
                self.marked.setdefault(name, []).append("")
        if tag == "form":
            self.form = attrs.get("id") or ""
            self.forms[self.form] = []
        elif tag == "a":
            self.links.append(attrs.get("href") or "")
        elif tag in ("input", "select", "textarea") and self.form is not None:
            control = {"tag": tag, "options": [], "text": "", **attrs}
            self.forms[self.form].append(control)
            self.select = control if tag == "select" else self.select
            self.area = control if tag == "textarea" else None
        elif tag == "option" and self.select:
            self.select["options"].append((attrs.get("value", ""), "selected" in attrs))

    def handle_endtag(self, tag: str) -> None:
        while tag in [name for name, _ in self.path] and self.path.pop()[0] != tag:
            pass
        if tag in ("form", "select", "textarea"):
            setattr(self, {"textarea": "area"}.get(tag, tag), None)

    def handle_data(self, data: str) -> None:
        if self.area:
            self.area["text"] += data
        elif not self.path or self.path[-1][0] not in ("script", "style"):
            self.words.append(data)
            for _, attrs in self.path:
                for name in (attrs.get("class") or "").split():
                    self.marked[name][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def texts(self, name: str) -> list[str]:
        """What stands in each element of a class."""
        return [" ".join(text.split()) for text in self.marked.get(name, [])]

    def options(self, name: str) -> list[str]:
        """The choices of the select boxes of this name, wherever they are."""
        found = [c for form in self.forms.values() for c in form if c.get("name") == name]
        return [value for control in found for value, _ in control["options"] if value]

    def names(self) -> set[str]:
        return {c.get("name") for form in self.forms.values() for c in form}

    def values(self, form: str) -> dict[str, Any]:
        """What this form sends if nobody touches it."""
        sent: dict[str, Any] = {}
        for control in self.forms[form]:
            for value in sends(control):
                sent.setdefault(control["name"], []).append(value)
        return {name: values if len(values) > 1 else values[0] for name, values in sent.items()}


def sends(control: Mapping[str, Any]) -> Iterator[str]:
    """The values a browser sends for a control; newlines in a text area become CR LF."""
    if not control.get("name") or "disabled" in control:
        return
    kind = control.get("type", "text")
    if control["tag"] == "textarea":
        text = control["text"].removeprefix("\n")
        yield "\r\n".join(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    elif control["tag"] == "select":
        chosen = [value for value, selected in control["options"] if selected]
        if "multiple" in control:
            yield from chosen
        elif control["options"]:
            yield (chosen or [control["options"][0][0]])[-1]
    elif kind in ("checkbox", "radio"):
        if "checked" in control:
            yield control.get("value", "on")
    elif kind not in BUTTONS:
        yield control.get("value") or ""


def opened(client: Any, url: str, form: str) -> dict[str, Any]:
    """What the form of that page holds when it is opened."""
    response = client.get(url)
    assert response.status_code == 200, (url, response.status_code)
    return Page(response).values(form)


def errors(response: Any) -> dict[str, str]:
    """The field errors of a form that came back; each of them can be read on the page."""
    assert response.status_code == 200, f"no error, but {response.status_code}"
    found = response.context["adminform"].form.errors
    text = " ".join(html.unescape(response.content.decode()).split())
    for told in found.values():
        for problem in told:
            assert " ".join(problem.split()) in text
    return {name: " ".join(told) for name, told in found.items()}


def snapshot(*models: type[Model]) -> dict[str, list[Any]]:
    """Every row of these models, or of all but the sessions."""
    every = models or [m for m in apps.get_models() if m is not Session]
    return {m._meta.label: list(m.objects.order_by("pk").values()) for m in every}


def place(model: type[Model]) -> str:
    """Where the console lists the rows of a model."""
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


def urls(rows: Mapping[type[Model], Iterable[Any]]) -> Iterator[str]:
    """Every page of the console; those about a row once for each of `rows`."""
    assert set(rows) == set(admin.site._registry), "each model of the console needs rows"
    for entry in admin.site.get_urls():
        if isinstance(entry, URLResolver):
            yield from urls_of(entry, rows)
        elif entry.name == "app_list":
            apps_shown = sorted({model._meta.app_label for model in rows})
            yield from (f"/admin/{label}/" for label in apps_shown)
        elif entry.name == "view_on_site":
            for model in rows:
                kind = ContentType.objects.get_for_model(model)
                yield f"/admin/r/{kind.pk}/{next(iter(rows[model])).pk}/"
        elif entry.name is None:
            yield "/admin/nowhere/"
        else:
            yield whole(f"/admin/{entry.pattern}")


def urls_of(resolver: URLResolver, rows: Mapping[type[Model], Iterable[Any]]) -> Iterator[str]:
    start = f"/admin/{resolver.pattern}"
    (model,) = [model for model in rows if place(model) == start]
    for entry in resolver.url_patterns:
        path = f"{start}{entry.pattern}"
        if "<" not in path:
            yield whole(path)
            continue
        for row in rows[model]:
            filled = path.replace("<path:object_id>", str(row.pk)).replace("<id>", str(row.pk))
            yield whole(filled)


def whole(path: str) -> str:
    assert not set("<>()^$") & set(path), f"nobody knows how to fill in {path}"
    return path
