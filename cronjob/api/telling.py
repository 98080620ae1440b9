"""How things are told: by fields that are made once, since that takes longer than using them."""

from functools import lru_cache
from typing import Any

from rest_framework.serializers import Serializer


@lru_cache
def teller(kind: type[Serializer[Any]]) -> Serializer[Any]:
    return kind()


def told(kind: type[Serializer[Any]], it: Any) -> dict[str, Any]:
    """As this serializer tells it; one that needs no context."""
    found: dict[str, Any] = teller(kind).to_representation(it)
    return found
