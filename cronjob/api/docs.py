"""The way in for a reader: an index of what there is, the OpenAPI description, Swagger UI."""

from typing import Any

from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from cronjob.api.errors import answer, plain
from cronjob.api.views import Endpoint

PLACES = {"tasks": "task-list", "schema": "schema", "docs": "docs", "metrics": "metrics"}


class IndexView(Endpoint):
    """What there is; each link can be followed."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response({name: reverse(view, request=request) for name, view in PLACES.items()})


class SchemaView(SpectacularJSONAPIView):
    scopes = {"get": "read"}


class DocsView(SpectacularSwaggerView):
    """Swagger UI from this server's own files."""

    url_name = "schema"
    scopes = {"get": "read"}

    def handle_exception(self, exc: Exception) -> Any:
        # The page's renderer knows templates only; an error is JSON here as everywhere.
        told = answer(exc, {})
        response = plain(told.data["code"], told.data["message"])
        for name, value in told.headers.items():
            response.headers[name] = value
        return response
