"""API keys in the console: made here, shown once, ended here."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from cronjob.api.models import SCOPES, ApiKey
from cronjob.console import base
from cronjob.console.forms import WordsField
from cronjob.lib import clock


class KeyForm(forms.ModelForm):
    scopes = forms.MultipleChoiceField(
        choices=[(name, f"{name}: {meaning}") for name, meaning in SCOPES.items()],
        widget=base.UnfoldAdminCheckboxSelectMultipleWidget,
        initial=["read"],
        help_text="Give as little as does the work.",
    )
    queues = WordsField(help_text="Queues a worker key is bound to, by commas; empty: all.")
    nodes = WordsField(help_text="Node ids a node key is bound to, by commas; empty: all.")

    def clean_expires_at(self) -> Any:
        end = self.cleaned_data["expires_at"]
        if end and end <= clock.now():
            raise forms.ValidationError("Must be in the future.")
        return end

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "queues", "nodes", "expires_at")


@admin.register(ApiKey)
class ApiKeyAdmin(base.ConsoleAdmin):
    form = KeyForm
    list_display = ("name", "start", "may", "state", "created_at", "expires_at", "last_used_at")
    search_fields = ("name", "prefix")
    ordering = ("-created_at",)
    actions = ("revoke",)
    empty_text = "No key yet. Make one for each program that talks to the API."

    @base.display(description="Begins with")
    def start(self, key: ApiKey) -> str:
        return f"cj_{key.prefix}_…"

    @base.display(description="Scopes", label=True)
    def may(self, key: ApiKey) -> list[str]:
        return key.scopes

    @base.display(description="State", label={"usable": "success", "ended": "danger"})
    def state(self, key: ApiKey) -> str:
        return "usable" if key.usable(key.asked_at) else "ended"  # type: ignore[attr-defined]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).annotate(asked_at=Now())  # once, not once a row

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        if obj is None:
            return KeyForm.Meta.fields
        times = ("created_at", "created_by", "expires_at", "revoked_at", "last_used_at")
        return ("name", "start", "may", "queues", "nodes", *times)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return () if obj is None else self.get_fields(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # what a key may do is settled when it is made

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # an ended key still tells who did what

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("api.change_apikey")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in KeyForm.Meta.fields}
        key, text = ApiKey.objects.issue(now=clock.now(), created_by=request.user, **values)
        obj.pk, obj.text = key.pk, text

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        """The page that shows the key: the only one, and never from a cache."""
        context = self.admin_site.each_context(request) | {
            "title": f"API key {obj.name}",
            "opts": self.opts,
            "console_key": obj.text,
        }
        response: HttpResponse = TemplateResponse(request, "console/key.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        ended = sum(key.revoke(now=clock.now()) for key in queryset)
        self.message_user(request, f"Revoked {ended} of {len(queryset)} keys.", messages.SUCCESS)
