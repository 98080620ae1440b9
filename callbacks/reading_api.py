"""Callbacks over REST, to be read: in pages, of a run, and one by one."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from django.db.models.functions import Length, Substr
from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from callbacks.api import IdsView, TokenView, reads
from callbacks.models import AsyncCallback, CallbackStatus
from callbacks.serializers import BEGINNING, CallbackRowSerializer, CallbackSerializer
from cronjob.api.errors import ApiError
from cronjob.api.filters import FilterSet, IdFilter, between
from cronjob.api.paging import DeepPages, Pages
from cronjob.api.telling import told
from cronjob.api.views import Endpoint
from runs.models import TaskRun


@between("received_at")
class CallbackFilter(FilterSet):
    run_id = IdFilter("task_run")
    task_id = IdFilter("task")
    status = django_filters.ChoiceFilter(choices=CallbackStatus.choices)
    before_id = IdFilter("pk", "lt", help_text="What comes after this one in the list.")


class Listing(viewsets.GenericViewSet[AsyncCallback]):
    """Pages of what the targets of asynchronous tasks reported."""

    queryset = AsyncCallback.objects.order_by("-id")
    serializer_class = CallbackSerializer
    filterset_class = CallbackFilter
    pagination_class: Any = DeepPages

    @extend_schema(responses={200: CallbackRowSerializer(many=True)})
    def list(self, request: Request, **where: str) -> Response:
        """Callbacks, newest first."""
        found = self.filter_queryset(self.get_queryset()).defer("body")
        read = {"beginning": Substr("body", 1, BEGINNING), "length": Length("body")}
        page: Any = self.paginate_queryset(found.annotate(**read))
        return self.get_paginated_response([told(CallbackRowSerializer, row) for row in page])


class CallbackViewSet(Listing, IdsView):
    """What was reported, to be read; and a report by ids."""

    def check_params(self, request: Request) -> None:
        if reads(request):
            Endpoint.check_params(self, request)


class RunCallbackFilter(CallbackFilter):
    run_id = task_id = before_id = None  # type: ignore[assignment]  # the path says which


class RunCallbackViewSet(Listing, Endpoint):
    """The callbacks of one run, in the order in which they came."""

    filterset_class = RunCallbackFilter
    pagination_class = Pages  # they are few, and the oldest comes first

    def get_queryset(self) -> QuerySet[AsyncCallback]:
        return AsyncCallback.objects.filter(task_run=self.kwargs["id"]).order_by("id")

    @extend_schema(
        responses={200: CallbackRowSerializer(many=True)}, operation_id="runs_callbacks_list"
    )
    def list(self, request: Request, **where: str) -> Response:
        """The callbacks of a run, in the order in which they came."""
        if not TaskRun.objects.filter(pk=where["id"]).exists():
            raise ApiError("NOT_FOUND", f"There is no run {where['id']}.")
        return super().list(request)


class CallbackView(TokenView):
    """One callback by its id; a token may look like one."""

    authentication_classes = Endpoint.authentication_classes
    permission_classes = Endpoint.permission_classes

    @extend_schema(responses={200: CallbackSerializer}, operation_id="callbacks_retrieve")
    def get(self, request: Request, id: str) -> Response:
        """One callback, whole."""
        callback = AsyncCallback.objects.filter(pk=id).first()
        if callback is None:
            raise ApiError("NOT_FOUND", f"There is no callback {id}.")
        return Response(told(CallbackSerializer, callback))

    @extend_schema(exclude=True)
    def post(self, request: Request, id: str) -> Response:
        return super().post(request, token=id)

    @extend_schema(exclude=True)
    def put(self, request: Request, id: str) -> Response:
        return super().post(request, token=id)

    @extend_schema(exclude=True)
    def patch(self, request: Request, id: str) -> Response:
        return super().post(request, token=id)

    def check_params(self, request: Request) -> None:
        if reads(request):
            Endpoint.check_params(self, request)

    def check_id(self) -> None:
        if reads(self.request):
            super().check_id()
