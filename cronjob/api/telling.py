"""Serializers whose fields are made once: that takes longer than to tell or read with them."""

from functools import lru_cache
from typing import Any

from rest_framework.serializers import Serializer


@lru_cache
def lasting(kind: type[Serializer[Any]], *, partial: bool = False) -> Serializer[Any]:
    """For everybody, therefore without data, instance and context of its own."""
    return kind(partial=partial)


def told(kind: type[Serializer[Any]], it: Any) -> dict[str, Any]:
    """As this serializer tells it; one that needs no context."""
    found: dict[str, Any] = lasting(kind).to_representation(it)
    return found
