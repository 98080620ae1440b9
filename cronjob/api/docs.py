"""The way in for a reader: an index of what there is, the OpenAPI description, Swagger UI."""

from typing import Any

from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from cronjob.api.errors import plain, understood
from cronjob.api.views import Endpoint

PLACES = {
    "tasks": "task-list",
    "runs": "run-list",
    "callbacks": "callbacks",
    "pause": "pause",
    "schema": "schema",
    "docs": "docs",
    "metrics": "metrics",
}


class IndexView(Endpoint):
    """What there is; each link can be followed."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response({name: reverse(view, request=request) for name, view in PLACES.items()})


class PlainErrors:
    """The renderers of these views know one thing only; an error is JSON here as everywhere."""

    scopes = {"get": "read"}

    def handle_exception(self, exc: Exception) -> Any:
        return plain(understood(exc))


class SchemaView(PlainErrors, SpectacularJSONAPIView):
    pass


class DocsView(PlainErrors, SpectacularSwaggerView):
    """Swagger UI from this server's own files."""

    url_name = "schema"
