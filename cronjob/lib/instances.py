"""Instances of models from rows of plain SQL, without what the ORM costs for each of them.

A name is a field, or `<foreign key>__<field>` of the model behind it. What was not asked for is
loaded when it is looked at, as with `only()`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from django.db import connection
from django.db.models import DateTimeField, Field, ForeignKey, JSONField, Model
from django.db.models.base import ModelState

M = TypeVar("M", bound=Model)
Names = tuple[str, ...]
Found = tuple["ForeignKey[Any, Any] | None", "Field[Any, Any]"]
Span = tuple["ForeignKey[Any, Any] | None", list[str], slice]
Read = Callable[[Any], Any]

NOTHING: dict[str, Callable[[], Any]] = {"{}": dict, "[]": list}  # most of what is kept as JSON
DECODE = json.JSONDecoder().raw_decode  # without a look at what comes before and after


@lru_cache
def columns(model: type[Model], names: Names) -> str:
    """For a SELECT from the table of the model, joined with those behind its foreign keys."""
    found = [field for _, field in fields_of(model, names)]
    return ", ".join(f'"{field.model._meta.db_table}"."{field.column}"' for field in found)


def instances(model: type[M], names: Names, rows: Iterable[Sequence[Any]]) -> list[M]:
    """Of rows with these columns."""
    readers = readers_of(model, names, connection.vendor)
    (_, own, its), *behind = spans(model, names)
    made, alias = [], connection.alias
    for row in rows:
        values = list(row)
        for n, read in readers:
            if values[n] is not None:
                values[n] = read(values[n])
        instance = new(model, dict(zip(own, values[its], strict=True)), alias)
        for key, attributes, span in behind:
            assert key is not None
            of = dict(zip(attributes, values[span], strict=True))
            of[key.target_field.attname] = instance.__dict__[key.attname]
            instance._state.fields_cache[key.name] = new(key.related_model, of, alias)
        made.append(instance)
    return made


def values(model: type[Model], names: Names, rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The same as plain rows."""
    readers, found = readers_of(model, names, connection.vendor), [list(row) for row in rows]
    for row in found:
        for n, read in readers:
            if row[n] is not None:
                row[n] = read(row[n])
    return found


def listed(ids: Iterable[int]) -> str:
    """For an IN (…), which may be of none."""
    return ", ".join(map(str, ids)) or "NULL"


def new(model: type[M], values: dict[str, Any], alias: str | None) -> M:
    """As it was stored: nothing is judged, nobody is told."""
    instance = model.__new__(model)
    state = ModelState()
    state.__dict__ = {"db": alias, "adding": False, "fields_cache": {}}
    instance.__dict__ = {**values, "_state": state}
    return instance


def twin(instance: M) -> M:
    """Another one with the same values, to be changed by itself; what is behind it is shared."""
    other = new(type(instance), instance.__dict__, instance._state.db)
    other._state.fields_cache.update(instance._state.fields_cache)
    return other


@lru_cache
def fields_of(model: type[Model], names: Names) -> tuple[Found, ...]:
    return tuple(field_of(model, name) for name in names)


@lru_cache
def spans(model: type[Model], names: Names) -> list[Span]:
    """Where in a row the model's own fields are, which come first, and those of each other one."""
    found, made = fields_of(model, names), list[Span]()
    for key, some in groupby(found, key=itemgetter(0)):
        start = made[-1][2].stop if made else 0
        attributes = [field.attname for _, field in some]
        made.append((key, attributes, slice(start, start + len(attributes))))
    keys = [key for key, *_ in made]
    assert keys[0] is None, names
    assert len({*keys}) == len(keys), names
    return made


def field_of(model: type[Model], name: str) -> Found:
    first, _, rest = name.partition("__")
    field: Any = model._meta.get_field(first)
    return (field, field.related_model._meta.get_field(rest)) if rest else (None, field)


@lru_cache
def readers_of(model: type[Model], names: Names, vendor: str) -> list[tuple[int, Read]]:
    """Which columns have something to be read."""
    found = [reader(field, vendor) for _, field in fields_of(model, names)]
    return [(n, read) for n, read in enumerate(found) if read]


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
    if nothing := NOTHING.get(text):
        return nothing()
    return DECODE(text)[0] if text.startswith(("{", "[")) else json.loads(text)


def in_utc(value: Any) -> datetime:
    """SQLite keeps times as text in UTC, and what is computed of them comes as such."""
    if isinstance(value, str):
        return datetime.fromisoformat(f"{value}+00:00")
    told: datetime = value.replace(tzinfo=UTC)
    return told


def through(steps: list[Callable[..., Any]], column: Any, value: Any) -> Any:
    for step in steps:
        value = step(value, column, connection)
    return value
