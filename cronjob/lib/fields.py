"""What the models of all apps share: constraints that name the values a column may hold."""

from collections.abc import Iterable

from django.db.models import CheckConstraint, Q


def one_of(field: str, values: Iterable[object], *, name: str) -> CheckConstraint:
    """The database refuses any other value, whoever writes it."""
    return CheckConstraint(condition=Q(**{f"{field}__in": tuple(values)}), name=name)


def present_iff(condition: Q, field: str, *, name: str) -> CheckConstraint:
    """`field` holds a value exactly while `condition` does."""
    return CheckConstraint(condition=condition ^ Q(**{f"{field}__isnull": True}), name=name)
