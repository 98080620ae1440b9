"""Form fields that let people write what the models keep as JSON or as seconds."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from cronjob.console import base
from cronjob.lib import duration, keepable


class WrittenField(forms.Field):
    """A value that people see and change as text; unchanged text leaves the value as it is."""

    widget = base.UnfoldAdminTextInputWidget

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, **kwargs})

    def has_changed(self, initial: Any, data: Any) -> bool:
        shown = lines(self.prepare_value(initial) or "")
        # A browser drops the line break that a text area begins with.
        return lines(data or "") not in (shown, shown.removeprefix("\n"))


def lines(text: str) -> str:
    """Browsers end each line their own way."""
    return text.replace("\r\n", "\n")


class BodyField(WrittenField):
    """Text to the letter, but for how its lines end."""

    widget = base.UnfoldAdminTextareaWidget

    def to_python(self, value: Any) -> str:
        text = lines(value or "")
        if "\x00" in text:
            raise ValidationError("Must not hold the character NUL.")
        return text


class JsonField(forms.JSONField):
    """JSON that every database can keep."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value.strip():
            try:
                keepable.loads(value)
            except ValueError as error:
                raise ValidationError(f"Not JSON: {error}.") from error
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What is shown again after an error, just as it was typed."""
        return data if isinstance(data, str) else super().bound_data(data, initial)

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else super().prepare_value(value)


class WordsField(WrittenField):
    """A list of words, written with commas between them."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:
        if isinstance(value, list):
            return value
        return [word.strip() for word in (value or "").split(",") if word.strip()]


class HeadersField(WrittenField):
    """Headers as they look in a request: one `Name: value` a line."""

    widget = base.UnfoldAdminTextareaWidget

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return "\n".join(f"{name}: {text}" for name, text in value.items())
        return value

    def to_python(self, value: Any) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        headers: dict[str, str] = {}
        for line in lines(value or "").split("\n"):
            name, colon, text = line.partition(":")
            if not line.strip():
                continue
            if not colon or not name.strip():
                raise ValidationError(f"“{line.strip()[:64]}” is not of the form Name: value.")
            if name.strip() in headers:
                raise ValidationError(f"{name.strip()} is given twice.")
            headers[name.strip()] = text.strip()
        return headers


class DurationField(WrittenField):
    """`5m`, `1h30m` or seconds; kept as seconds."""

    def __init__(self, *, zero: bool = False, **kwargs: Any) -> None:
        self.zero = zero
        super().__init__(**kwargs)

    def prepare_value(self, value: Any) -> Any:
        return duration.format(value) if isinstance(value, int) else value

    def to_python(self, value: Any) -> int | None:
        if value in self.empty_values:
            return None
        try:
            return duration.parse(value, zero=self.zero)
        except duration.BadDuration as error:
            raise ValidationError(str(error)) from error


class PartsWidget(forms.MultiWidget):
    """Several named inputs that make one value."""

    template_name = "console/parts.html"

    def __init__(self, parts: Mapping[str, tuple[str, forms.Field]]) -> None:
        self.parts = parts
        super().__init__({name: field.widget for name, (_, field) in parts.items()})

    def decompress(self, value: Any) -> list[Any]:
        given = value if isinstance(value, Mapping) else {}
        return [given.get(name) for name in self.parts]

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        self.attrs.pop("x-model.fill", None)  # unfold would let all parts share one value
        context = super().get_context(name, value, attrs)
        shown = zip(self.parts.values(), context["widget"]["subwidgets"], strict=True)
        context["parts"] = [(label, subwidget) for (label, _), subwidget in shown]
        return context


class PartsField(forms.MultiValueField):
    """A JSON object edited part by part; each part has a label and a field."""

    def __init__(self, parts: Mapping[str, tuple[str, forms.Field]], **kwargs: Any) -> None:
        self.parts = parts
        fields = [field for _, field in parts.values()]
        super().__init__(
            fields=fields,
            widget=PartsWidget(parts),
            require_all_fields=False,
            **{"required": False, **kwargs},
        )

    def compress(self, data_list: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.parts, data_list, strict=True)) if data_list else {}
