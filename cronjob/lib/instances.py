"""Instances of models from rows of plain SQL, without what the ORM costs for each of them.

A name is a field, or `<foreign key>__<field>` of the model behind it. What was not asked for is
loaded when it is looked at, as with `only()`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, TypeVar

from django.db import connection
from django.db.models import DateTimeField, Field, ForeignKey, JSONField, Model
from django.db.models.base import ModelState

M = TypeVar("M", bound=Model)
Names = tuple[str, ...]
Found = tuple["ForeignKey[Any, Any] | None", "Field[Any, Any]"]
Read = Callable[[Any], Any]

NOTHING: dict[str, Callable[[], Any]] = {"{}": dict, "[]": list}  # most of what is kept as JSON


def columns(model: type[Model], names: Names) -> str:
    """For a SELECT from the table of the model, joined with those behind its foreign keys."""
    found = [field for _, field in fields_of(model, names)]
    return ", ".join(f'"{field.model._meta.db_table}"."{field.column}"' for field in found)


def instances(model: type[M], names: Names, rows: Iterable[Sequence[Any]]) -> list[M]:
    """Of rows with these columns."""
    found = fields_of(model, names)
    all_readers = [reader(field, connection.vendor) for _, field in found]
    readers = [(n, read) for n, read in enumerate(all_readers) if read]
    attributes = [field.attname for _, field in found]
    behind = {key.name: key for key, _ in found if key}
    spans = {name: [n for n, (k, _) in enumerate(found) if k and k.name == name] for name in behind}
    own = [n for n, (key, _) in enumerate(found) if not key]
    made = []
    for row in rows:
        values = list(row)
        for n, read in readers:
            if values[n] is not None:
                values[n] = read(values[n])
        instance = new(model, {attributes[n]: values[n] for n in own})
        for name, span in spans.items():
            of = {attributes[n]: values[n] for n in span}
            key = behind[name]
            of[key.target_field.attname] = getattr(instance, key.attname)
            instance._state.fields_cache[name] = new(key.related_model, of)
        made.append(instance)
    return made


def values(model: type[Model], names: Names, rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The same as plain rows."""
    found = [reader(field, connection.vendor) for _, field in fields_of(model, names)]
    return [
        [read(v) if read and v is not None else v for read, v in zip(found, row, strict=True)]
        for row in rows
    ]


def listed(ids: Iterable[int]) -> str:
    """For an IN (…), which may be of none."""
    return ", ".join(map(str, ids)) or "NULL"


def new(model: type[M], values: dict[str, Any]) -> M:
    """As it was stored: nothing is judged, nobody is told."""
    instance = model.__new__(model)
    state = ModelState()
    state.db, state.adding, state.fields_cache = connection.alias, False, {}
    instance.__dict__ = {"_state": state, **values}
    return instance


def twin(instance: M) -> M:
    """Another one with the same values, to be changed by itself; what is behind it is shared."""
    values = {name: value for name, value in instance.__dict__.items() if name != "_state"}
    other = new(type(instance), values)
    other._state.fields_cache = dict(instance._state.fields_cache)
    return other


@lru_cache
def fields_of(model: type[Model], names: Names) -> tuple[Found, ...]:
    return tuple(field_of(model, name) for name in names)


def field_of(model: type[Model], name: str) -> Found:
    first, _, rest = name.partition("__")
    field: Any = model._meta.get_field(first)
    return (field, field.related_model._meta.get_field(rest)) if rest else (None, field)


@lru_cache
def reader(field: Field[Any, Any], vendor: str) -> Read | None:
    """What makes a value of what the database gives; None if nothing is left to do."""
    if isinstance(field, JSONField):
        return loaded
    if isinstance(field, DateTimeField) and vendor == "sqlite":
        return in_utc
    column = field.get_col(field.model._meta.db_table)
    steps = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
    return partial(through, steps, column) if steps else None


def loaded(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return NOTHING[text]() if text in NOTHING else json.loads(text)


def in_utc(value: Any) -> datetime:
    """SQLite keeps times as text in UTC, and what is computed of them comes as such."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    told: datetime = at.replace(tzinfo=UTC)
    return told


def through(steps: list[Callable[..., Any]], column: Any, value: Any) -> Any:
    for step in steps:
        value = step(value, column, connection)
    return value
