"""Fields and serializers that take exactly what the documents say, and answer it the same way."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from cronjob.api.errors import flat
from cronjob.lib import duration

NAMES_MAX, NAME_MAX = 20, 64  # of what is not known, so many are told of, so long


class StrictSerializer(serializers.Serializer[Any]):
    """A field that is not known is an error: a typo must not pass for a default."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError(
                {name[:NAME_MAX]: ["There is no such field."] for name in unknown[:NAMES_MAX]}
            )
        return super().to_internal_value(data)


class Whole:
    """What is wrong with a part is told under the name of the whole."""

    def run_child_validation(self, data: Any) -> Any:
        try:
            return super().run_child_validation(data)  # type: ignore[misc]
        except serializers.ValidationError as error:
            told = [f"{at}: {why}" for at, whys in flat(error.detail).items() for why in whys]
            raise serializers.ValidationError(told) from error


class WordsField(Whole, serializers.ListField):
    def __init__(self, **how: Any) -> None:
        super().__init__(child=TextField(), **how)


class HeadersField(Whole, serializers.DictField):
    def __init__(self, **how: Any) -> None:
        super().__init__(child=TextField(allow_blank=True), **how)


class TimeField(serializers.DateTimeField):
    """RFC 3339 with an offset in, UTC with `Z` out."""

    default_error_messages = {"naive": "Must end in Z or an offset such as +02:00."}

    def enforce_timezone(self, value: datetime) -> datetime:
        if value.tzinfo is None:
            self.fail("naive")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            self.fail("overflow")


class SecondsField(serializers.FloatField):
    """A number of seconds; a whole one is answered without a fraction."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool | str):
            self.fail("invalid")
        return super().to_internal_value(data)

    def to_representation(self, value: Any) -> Any:
        return int(value) if float(value).is_integer() else float(value)


class CountField(serializers.IntegerField):
    """A whole number: neither 1.5 nor true nor "1" will do."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool | str) or not isinstance(data, int):
            self.fail("invalid")
        return data


@extend_schema_field({"type": ["string", "integer"], "examples": ["5m", "1h30m", 90]})
class DurationField(serializers.Field[int, Any, str, Any]):
    """`"5m"` or whole seconds in, `"5m"` out; whole seconds inside."""

    def __init__(self, *, zero: bool = False, **kwargs: Any) -> None:
        self.zero = zero
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> int:
        try:
            return duration.parse(data, zero=self.zero)
        except duration.BadDuration as error:
            raise serializers.ValidationError(str(error)) from error

    def to_representation(self, value: int) -> str:
        return duration.format(value)


class FlagField(serializers.BooleanField):
    """true or false, and nothing that merely looks like it."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class TextField(serializers.CharField):
    """Text as it stands; a number is not text."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class NamedChoiceField(serializers.ChoiceField):
    """The name of a member of an integer enumeration, such as NORMAL."""

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        self.members = choices
        super().__init__(choices=choices.names, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        return self.members[super().to_internal_value(data)]

    def to_representation(self, value: Any) -> str:
        return str(self.members(value).name)
