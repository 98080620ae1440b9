"""Many guarded writes in one statement: each row only while it is what its writer saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from django.db import connection
from django.db.models import CharField, Field, IntegerField, JSONField, Model, TextField

Row = tuple[Any, ...]


def compare_and_set(
    model: type[Model], rows: Sequence[Row], *, seen: tuple[str, ...], sets: tuple[str, ...]
) -> set[int]:
    """A row is its id, the values it was `seen` with and those it gets; the ids that got them."""
    if not rows:
        return set()
    # In one order everywhere: writers that wait for each other do not do so in a circle.
    columns = prepared(model, ("pk", *seen, *sets), sorted(rows, key=lambda row: row[0]))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(in_one(model, seen, sets), columns)
            return {row[0] for row in cursor.fetchall()}
        statement, moved = one_by_one(model, seen, sets), set()
        for pk, *values in zip(*columns, strict=True):
            cursor.execute(statement, [*values[len(seen) :], pk, *values[: len(seen)]])
            if cursor.rowcount == 1:
                moved.add(pk)
        return moved


def insert_new(model: type[Model], rows: Sequence[Row], names: tuple[str, ...]) -> None:
    """Rows with these fields, all others by their defaults; what some key forbids is left out."""
    if not rows:
        return
    columns = prepared(model, names, rows)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(all_new(model, names), columns)
        else:
            cursor.executemany(one_new(model, names), list(zip(*columns, strict=True)))


@lru_cache
def fields_of(model: type[Model], names: tuple[str, ...]) -> tuple[Field[Any, Any], ...]:
    options = model._meta
    assert options.pk is not None
    return tuple(options.pk if n == "pk" else options.get_field(n) for n in names)  # type: ignore[misc]


def prepared(model: type[Model], names: tuple[str, ...], rows: Sequence[Row]) -> list[list[Any]]:
    """The columns of the rows, as the driver takes them."""
    keepers = [keeper(field, connection.vendor) for field in fields_of(model, names)]
    return [
        [None if value is None else kept(value) for value in column]
        for kept, column in zip(keepers, zip(*rows, strict=True), strict=True)
    ]


@lru_cache
def keeper(field: Field[Any, Any], vendor: str) -> Callable[[Any], Any]:
    """How a value of this field is handed over; Django's own way costs ten times as much."""
    if isinstance(field, JSONField):  # arrays of JSON do not travel, those of text do
        return json.dumps
    if isinstance(field, CharField | TextField):
        return str.__str__  # of a member of an enumeration, its value
    if vendor == "postgresql":
        return int if isinstance(field, IntegerField) else same
    return partial(field.get_db_prep_save, connection=connection)


def same(value: Any) -> Any:
    return value


def type_of(field: Field[Any, Any]) -> str:
    return "text" if isinstance(field, JSONField) else str(field.db_type(connection))


def cast_of(field: Field[Any, Any]) -> str:
    return "::jsonb" if isinstance(field, JSONField) else ""


@lru_cache
def in_one(model: type[Model], seen: tuple[str, ...], sets: tuple[str, ...]) -> str:
    fields = fields_of(model, ("pk", *seen, *sets))
    names = [f"v{n}" for n in range(len(fields))]
    arrays = ", ".join(f"%s::{type_of(field)}[]" for field in fields)
    (pk, _), *told = zip(fields, names, strict=True)
    old, new = told[: len(seen)], told[len(seen) :]
    written = ", ".join(f'"{f.column}" = v.{name}{cast_of(f)}' for f, name in new)
    guards = "".join(f' AND r."{f.column}" IS NOT DISTINCT FROM v.{name}' for f, name in old)
    return (
        f"WITH v AS MATERIALIZED (SELECT * FROM unnest({arrays}) AS t({', '.join(names)})"
        f" ORDER BY {names[0]}) "
        f'UPDATE "{model._meta.db_table}" r SET {written} FROM v '
        f'WHERE r."{pk.column}" = v.{names[0]}{guards} RETURNING r."{pk.column}"'
    )


@lru_cache
def one_by_one(model: type[Model], seen: tuple[str, ...], sets: tuple[str, ...]) -> str:
    written = ", ".join(f'"{f.column}" = %s' for f in fields_of(model, sets))
    pk = fields_of(model, ("pk",))[0]
    guards = "".join(f' AND "{f.column}" IS %s' for f in fields_of(model, seen))
    return f'UPDATE "{model._meta.db_table}" SET {written} WHERE "{pk.column}" = %s{guards}'


@lru_cache
def all_new(model: type[Model], names: tuple[str, ...]) -> str:
    fields, others = fields_of(model, names), defaults(model, names)
    arrays = ", ".join(f"%s::{type_of(field)}[]" for field in fields)
    taken = [f"t.v{n}{cast_of(field)}" for n, field in enumerate(fields)]
    columns = ", ".join(f'"{field.column}"' for field in (*fields, *(f for f, _ in others)))
    return (
        f'INSERT INTO "{model._meta.db_table}" ({columns}) '
        f"SELECT {', '.join([*taken, *(literal for _, literal in others)])} FROM "
        f"unnest({arrays}) AS t({', '.join(f'v{n}' for n in range(len(fields)))})"
        " ON CONFLICT DO NOTHING"
    )


@lru_cache
def one_new(model: type[Model], names: tuple[str, ...]) -> str:
    fields, others = fields_of(model, names), defaults(model, names)
    columns = ", ".join(f'"{field.column}"' for field in (*fields, *(f for f, _ in others)))
    values = ", ".join([*("%s" for _ in fields), *(literal for _, literal in others)])
    table = model._meta.db_table
    return f'INSERT INTO "{table}" ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING'


def defaults(model: type[Model], given: tuple[str, ...]) -> list[tuple[Field[Any, Any], str]]:
    """The columns not given that may not be null, and what they hold, as SQL."""
    known = set(fields_of(model, given))
    found = []
    for field in model._meta.concrete_fields:
        if field in known or field.primary_key or field.generated or field.null:
            continue
        value = field.get_default()
        if isinstance(field, JSONField):
            value = json.dumps(value)
        found.append((field, literal_of(value) + cast_of(field) * (connection.vendor != "sqlite")))
    return found


def literal_of(value: Any) -> str:
    """Of a default of ours, never of anything from outside."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return str(int(value) if isinstance(value, int) else value)
    return "'" + str.__str__(value).replace("'", "''").replace("%", "%%") + "'"
