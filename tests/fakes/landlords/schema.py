"""Check JSON against a schema: the part of JSON Schema that the landlords' specifications use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def faults_of(value: Any, schema: Mapping[str, Any], spec: Mapping[str, Any] | None = None, at: str = "$") -> list[str]:
    """List what is wrong with a value; `spec` resolves $ref."""
    return list(_faults(value, schema, spec or {}, at))


def obj(required: str = "", /, *, closed: bool = False, **properties: Any) -> dict[str, Any]:
    """Write an object's schema: the required names in one text, then the properties."""
    schema: dict[str, Any] = {"type": "object", "required": required.split(), "properties": properties}
    if closed:
        schema["additionalProperties"] = False
    return schema


def arr(items: Any, **more: Any) -> dict[str, Any]:
    """Write a list's schema."""
    return {"type": "array", "items": items, **more}


def maybe(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Allow null too."""
    return {"anyOf": [schema, {"type": "null"}]}


TEXT: dict[str, Any] = {"type": "string"}
SOME_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
WHOLE: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
YES_NO: dict[str, Any] = {"type": "boolean"}


def one_of(*words: Any) -> dict[str, Any]:
    """Write an enumeration."""
    return {"enum": list(words)}


def _faults(value: Any, schema: Any, spec: Mapping[str, Any], at: str) -> Iterator[str]:
    if schema is True or not schema:
        return
    while "$ref" in schema:
        found: Any = spec
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/")]
        schema = found
    if value is None and schema.get("nullable"):
        return
    yield from _own(value, schema, at)
    for part in schema.get("allOf", ()):
        yield from _faults(value, part, spec, at)
    for word, most in (("anyOf", 99), ("oneOf", 1)):
        if parts := schema.get(word):
            fitting = sum(not faults_of(value, part, spec, at) for part in parts)
            if not 1 <= fitting <= most:
                yield f"{at}: fits {fitting} of {word}"
    if isinstance(value, dict):
        yield from _of_object(value, schema, spec, at)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, schema.get("items", {}), spec, f"{at}[{index}]")


def _own(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    wanted = schema.get("type", ())
    kinds = [wanted] if isinstance(wanted, str) else list(wanted)
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{at}: {value!r} is not {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0) or len(value) > schema.get("maxLength", 1 << 30):
            yield f"{at}: {len(value)} characters"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{at}: {value!r} does not match {schema['pattern']}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: {value} is out of range"
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 30):
        yield f"{at}: {len(value)} items"


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _of_object(value: dict[str, Any], schema: Mapping[str, Any], spec: Mapping[str, Any], at: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}: {name} is missing"
    more = schema.get("additionalProperties", True)
    for name, part in value.items():
        if name in known:
            yield from _faults(part, known[name], spec, f"{at}.{name}")
        elif more is False:
            yield f"{at}: {name} is not known"
        elif isinstance(more, dict):
            yield from _faults(part, more, spec, f"{at}.{name}")
