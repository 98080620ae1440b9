"""One verb for everything that a filter matches: first what it would do, then doing it."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils.datastructures import MultiValueDict
from django_filters import MultipleChoiceFilter
from rest_framework import serializers

from cronjob.api import fields
from cronjob.api.errors import ApiError, invalid
from cronjob.api.paging import COUNT_MAX
from cronjob.api.views import ID_MAX

MOST = 500  # rows of one request; the answer says from where to go on
CHANGED, UNCHANGED, REFUSED = "changed", "unchanged", "refused"

# Of one row: what was done, or would be; why not; the run that was made.
Done = tuple[str, str, int | None]
Verb = Callable[[Any, bool], Done]


class BulkSerializer(fields.StrictSerializer):
    """Which rows, and what is to be done with them."""

    filter = serializers.DictField(
        help_text="The parameters of the list; or `ids`; or `all`, which must be true."
    )
    dry_run = fields.FlagField(required=False, help_text="Only say what it would do.")
    after_id = fields.CountField(
        required=False, min_value=0, max_value=ID_MAX, help_text="Go on behind this row."
    )


class DoneSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    outcome = serializers.ChoiceField(choices=(CHANGED, UNCHANGED, REFUSED))
    detail = serializers.CharField(help_text="Why it was refused.")
    run_id = serializers.IntegerField(allow_null=True, help_text="The run that was made.")


class BulkDoneSerializer(serializers.Serializer[Any]):
    action = serializers.CharField()
    dry_run = serializers.BooleanField()
    matched = serializers.IntegerField(help_text="In this answer.")
    total = serializers.IntegerField(help_text=f"Before anything was done; up to {COUNT_MAX}.")
    total_capped = serializers.BooleanField(help_text="There are more than counted.")
    changed = serializers.IntegerField()
    results = DoneSerializer(many=True)
    next_after_id = serializers.IntegerField(
        allow_null=True, help_text="There are more: send the same again with this `after_id`."
    )


def matching(rows: QuerySet[Any], kind: Any, given: Mapping[str, Any], request: Any) -> Any:
    """The rows of a filter that came as JSON; an empty one must be meant."""
    values = dict(given)
    everything, ids = values.pop("all", False), values.pop("ids", None)
    if everything is not True and ids is None and not values:
        raise invalid({"filter": ['Say which, or {"all": true} for every one.']})
    if ids is not None:
        whole = isinstance(ids, list) and all(type(pk) is int and 0 < pk <= ID_MAX for pk in ids)
        if not whole or len(ids) > MOST:
            raise invalid({"filter.ids": [f"Must be a list of at most {MOST} ids."]})
        rows = rows.filter(pk__in=ids)
    known = {name: one for name, one in kind.base_filters.items() if name != "ordering"}
    if unknown := sorted(set(values) - set(known)):
        raise invalid({f"filter.{name}": ["There is no such parameter."] for name in unknown})
    data = MultiValueDict(
        {name: texts(name, value, many=isinstance(known[name], MultipleChoiceFilter))
         for name, value in values.items()}
    )  # fmt: skip
    asked = kind(data=data, queryset=rows, request=request)
    if not asked.is_valid():
        raise invalid({f"filter.{name}": list(told) for name, told in asked.errors.items()})
    return asked.qs


def texts(name: str, value: Any, *, many: bool) -> list[str]:
    """As in a query; but nothing where something should be must not mean everything."""
    values = value if many and isinstance(value, list) else [value]
    told = [str(one).strip() if type(one) in (str, int) else "" for one in values]
    if not told or not all(told):
        kinds = "text, a whole number, or a list of them" if many else "text or a whole number"
        raise invalid({f"filter.{name}": [f"Must be {kinds}, and not empty."]})
    return told


def each(rows: Any, values: Mapping[str, Any], verb: Verb) -> dict[str, Any]:
    """One after another, each in its own transaction: what one refuses does not undo another."""
    dry = values.get("dry_run", False)
    after = values.get("after_id", 0)
    total = rows.order_by().values("pk")[: COUNT_MAX + 1].count()
    found = list(rows.filter(pk__gt=after).order_by("pk")[: MOST + 1])
    results = []
    for row in found[:MOST]:
        try:
            outcome, detail, run = verb(row, dry)
        except ApiError as error:
            outcome, detail, run = REFUSED, error.message, None
        results.append({"id": row.pk, "outcome": outcome, "detail": detail, "run_id": run})
    return {
        "action": values["action"],
        "dry_run": dry,
        "matched": len(results),
        "total": min(total, COUNT_MAX),
        "total_capped": total > COUNT_MAX,
        "changed": sum(result["outcome"] == CHANGED for result in results),
        "results": results,
        "next_after_id": results[-1]["id"] if len(found) > MOST else None,
    }
