"""Filters that several lists share: times as the API writes them, and keys to page by."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import django_filters
from django import forms
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cronjob.api.fields import TimeField
from cronjob.api.views import ID_MAX


class FilterSet(django_filters.FilterSet):
    def __init__(self, data: Any = None, *others: Any, request: Any = None, **how: Any) -> None:
        kind: Any = type(self)
        if getattr(getattr(request, "accepted_renderer", None), "format", "") != "api":
            # A copy is made of each, and a form of all: but for a person who is to fill it in,
            # only of those that the request names.
            self.base_filters = {
                n: one for n, one in kind.base_filters.items() if n in (data or ())
            }
        super().__init__(data, *others, request=request, **how)


class MomentField(forms.Field):
    def to_python(self, value: Any) -> datetime | None:
        if not value:
            return None
        try:  # a plus sign that nobody escaped arrives as a space
            return TimeField().run_validation(str(value).replace(" ", "+"))
        except serializers.ValidationError as error:
            raise forms.ValidationError([str(problem) for problem in error.detail]) from error


@extend_schema_field({"type": "string", "format": "date-time"})
class MomentFilter(django_filters.Filter):
    """RFC 3339 with `Z` or an offset."""

    field_class = MomentField


def between(field: str) -> Callable[[Any], Any]:
    """A filter set that also takes `from` and `to`, which Python has for itself."""

    def decorate(kind: Any) -> Any:
        told = f"On `{field}`, the time itself included."
        for name, lookup in (("from", "gte"), ("to", "lte")):
            one = MomentFilter(field, lookup, help_text=told)
            kind.base_filters[name] = kind.declared_filters[name] = one
        return kind

    return decorate


class ChoicesField(forms.MultipleChoiceField):
    def clean(self, value: Any) -> Any:
        return super().clean([one for one in value or () if one])  # `status=` asks for nothing


class ChoicesFilter(django_filters.MultipleChoiceFilter):
    """May be given several times."""

    field_class = ChoicesField


class IdField(forms.Field):
    def to_python(self, value: Any) -> int | None:
        if not value:
            return None
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= int(text) <= ID_MAX):
            raise forms.ValidationError("Must be a whole number from 1.")
        return int(text)


@extend_schema_field({"type": "integer", "minimum": 1, "maximum": ID_MAX})
class IdFilter(django_filters.Filter):
    field_class = IdField
