"""Pages: {"count", "next", "previous", "results"}, at a cost that does not grow with the table."""

from typing import Any

from django.db.models.expressions import RawSQL
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from cronjob.api.errors import invalid
from cronjob.lib.instances import listed

SIZE, SIZE_MAX, COUNT_MAX = 20, 200, 10_000
PAGE_MAX = 2**31


class Pages(BasePagination):
    params = ("page", "page_size")

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.request = request
        self.page = positive(request, "page", default=1)
        self.size = min(positive(request, "page_size", default=SIZE), SIZE_MAX)
        start = (self.page - 1) * self.size
        rows = self.rows(queryset, start)
        self.more = len(rows) > self.size
        self.count = start + len(rows)
        if self.more or (start and not rows):
            # Nothing tells but counting; it stops soon after the last number that is told.
            self.count = queryset.order_by().values("pk")[: COUNT_MAX + 1].count()
        return rows[: self.size]

    def rows(self, queryset: Any, start: int) -> list[Any]:
        """One more than is shown tells whether there is a next page."""
        return list(queryset[start : start + self.size + 1])

    def get_paginated_response(self, data: Any) -> Response:
        body: dict[str, Any] = {"count": min(self.count, COUNT_MAX)}
        if self.count > COUNT_MAX:
            body["count_capped"] = True
        body |= {"next": self.next(), "previous": self.previous(), "results": data}
        return Response(body)

    def next(self) -> str | None:
        url = self.request.build_absolute_uri()
        return replace_query_param(url, "page", self.page + 1) if self.more else None

    def previous(self) -> str | None:
        url = self.request.build_absolute_uri()
        if self.page == 1:
            return None
        if self.page == 2:
            return remove_query_param(url, "page")
        return replace_query_param(url, "page", self.page - 1)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri", "example": None}
        told, more = f"Exact up to {COUNT_MAX}.", "There are more than counted."
        return {
            "type": "object",
            "required": ["count", "next", "previous", "results"],
            "properties": {
                "count": {"type": "integer", "description": told, "example": 1},
                "count_capped": {"type": "boolean", "description": more, "example": False},
                "next": link,
                "previous": link,
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": "page",
                "in": "query",
                "schema": {"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": 1},
            },
            {
                "name": "page_size",
                "in": "query",
                "description": f"At most {SIZE_MAX}; more is taken as that.",
                "schema": {"type": "integer", "minimum": 1, "default": SIZE},
            },
        ]


class DeepPages(Pages):
    """Of a table that grows for ever: far down it goes on from a row, not by counting rows."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        page = positive(request, "page", default=1)
        size = min(positive(request, "page_size", default=SIZE), SIZE_MAX)
        if (page - 1) * size >= COUNT_MAX:
            problem = f"Beyond row {COUNT_MAX}, go on with before_id: the last id you have seen."
            raise invalid({"page": [problem]})
        rows = super().paginate_queryset(queryset, request, view)
        self.last = rows[-1].pk if rows else None
        return rows

    def rows(self, queryset: Any, start: int) -> list[Any]:
        """What is passed over is not read: an index alone counts it."""
        if start == 0:
            return super().rows(queryset, start)
        keys = list(queryset.values_list("pk", flat=True)[start : start + self.size + 1])
        if keys and queryset.query.order_by == ("-id",):  # then they need not be looked up singly
            return super().rows(queryset.filter(pk__lte=keys[0]), 0)
        return list(queryset.filter(pk__in=RawSQL(listed(keys), ())))

    def next(self) -> str | None:
        url = self.request.build_absolute_uri()
        if not self.more or self.page * self.size < COUNT_MAX:
            return super().next()
        return replace_query_param(remove_query_param(url, "page"), "before_id", self.last)


def positive(request: Request, name: str, *, default: int, most: int = PAGE_MAX) -> int:
    text = request.query_params.get(name) or str(default)  # an empty one is as good as none
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= most):
        problem = {name: [f"Must be a whole number from 1 to {most}."]}
        raise invalid(problem)
    return int(text)
