"""Unfold, imported here and nowhere else: the classes and widgets that the console is made of."""

from typing import Any

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, StackedInline
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.forms import (
    AdminPasswordChangeForm,
    AuthenticationForm,
    UserChangeForm,
    UserCreationForm,
)
from unfold.paginator import InfinitePaginator
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

__all__ = [
    "AdminPasswordChangeForm",
    "AuthenticationForm",
    "ChoicesDropdownFilter",
    "ConsoleAdmin",
    "ReadOnlyAdmin",
    "ReadOnlyInline",
    "UnfoldAdminCheckboxSelectMultipleWidget",
    "UnfoldAdminIntegerFieldWidget",
    "UnfoldAdminSelectWidget",
    "UnfoldAdminTextInputWidget",
    "UnfoldAdminTextareaWidget",
    "UnfoldBooleanSwitchWidget",
    "UserChangeForm",
    "UserCreationForm",
    "display",
]

# How each state looks: label variants that unfold knows.
COLORS = {
    "ENABLED": "success",
    "DISABLED": "warning",
    "SCHEDULED": "info",
    "RUNNING": "primary",
    "RETRYING": "warning",
    "CALLBACK_PENDING": "primary",
    "SUCCESS": "success",
    "CALLBACK_SUCCESS": "success",
    "FAILED": "danger",
    "TIMEOUT": "danger",
    "FAILED_TIMEOUT": "danger",
    "CANCELED": "warning",
    "RECEIVED": "success",
    "IGNORED": "warning",
}


class ConsoleAdmin(ModelAdmin):
    list_per_page = 50
    show_full_result_count = False  # not worth a count(*) over every row there ever was
    list_filter_submit = True
    warn_unsaved_form = True
    empty_text = ""  # what to do next where there is nothing yet


class ReadOnlyInline(StackedInline):
    """Rows that belong to another, in the order in which they came."""

    extra = max_num = 0
    can_delete = False
    per_page = 20

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class ReadOnlyAdmin(ConsoleAdmin):
    """Rows that the product writes and people read; there may be millions of them."""

    actions: Any = None
    paginator = InfinitePaginator  # counts nothing
    heavy: tuple[str, ...] = ()  # columns that a list does not show and must not load

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        place = request.resolver_match.url_name if request.resolver_match else ""
        return rows.defer(*self.heavy) if str(place).endswith("_changelist") else rows

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
