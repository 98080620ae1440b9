"""What every endpoint shares: known parameters only, ids that are ids, JSON by default."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rest_framework.exceptions import MethodNotAllowed, ValidationError
from rest_framework.metadata import SimpleMetadata
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer
from rest_framework.request import Request
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from cronjob.api.errors import ApiError, invalid
from cronjob.api.telling import lasting

ID_MAX = 2**63 - 1


class BrowsableRenderer(BrowsableAPIRenderer):
    """For a person who is logged in: the answers as pages, and raw JSON to send."""

    def render_form_for_serializer(self, serializer: Any) -> str:
        return ""  # the console has the forms; here one sends what a client sends


class Metadata(SimpleMetadata):
    """What OPTIONS answers; the fields are in the description of the API."""

    def determine_actions(self, request: Request, view: Any) -> Any:
        return {}


class Endpoint(APIView):
    """The base of every view under /api/v1."""

    metadata_class = Metadata
    scopes: dict[str, str] = {}
    answers: dict[str, str] = {}  # errors of a view that differ from those of most
    takes_chunks = False
    params: Sequence[str] = ()  # query parameters besides those of filters and pages

    def get_renderers(self) -> list[BaseRenderer]:
        renderers = super().get_renderers()
        asked = getattr(self, "request", None)  # none while the schema is being drawn
        user = getattr(getattr(asked, "_request", asked), "user", None)
        if user is not None and user.is_authenticated:
            renderers.append(BrowsableRenderer())
        return renderers

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method not in self.allowed_methods:
            raise MethodNotAllowed(str(request.method))
        chunked = request.META.get("HTTP_TRANSFER_ENCODING")
        if chunked and not self.takes_chunks and not request.META.get("CONTENT_LENGTH"):
            # WSGI does not tell how long it is: it would be taken for no body at all.
            raise ApiError(
                "INVALID_ARGUMENT", "Send the body with a Content-Length, not in chunks."
            )
        self.check_params(request)
        self.check_id()

    def given(
        self, request: Request, kind: type[Serializer[Any]], *, partial: bool = False
    ) -> dict[str, Any]:
        """What the body says, in the terms of this serializer."""
        with suppress(ValidationError):
            return dict(lasting(kind, partial=partial).run_validation(request.data))
        serializer = kind(data=request.data, partial=partial)  # which says what is wrong
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def check_params(self, request: Request) -> None:
        known = set(self.params)
        if getattr(self, "action", None) == "list":
            known |= set(getattr(getattr(self, "paginator", None), "params", ()))
            known |= set(getattr(getattr(self, "filterset_class", None), "base_filters", ()))
        if unknown := sorted(set(request.query_params) - known):
            problems = {name: ["There is no such parameter."] for name in unknown}
            raise invalid(problems)

    def check_id(self) -> None:
        text = self.kwargs.get("id")
        if text is None:
            return
        digits = text.isascii() and text.isdigit() and len(text) <= 19
        if not digits or not 1 <= int(text) <= ID_MAX:
            raise ApiError("INVALID_ID", "An id is a whole number from 1.")
