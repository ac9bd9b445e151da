"""Writes the AsyncAPI and OpenAPI documents of schemas/ as Markdown: topics, requests, and a table for each schema.

AsyncAPI's own generator takes Node, which nothing else of the site needs.
"""

import re

# Bounds of a JSON schema that say something in a table, and how.
BOUNDS = {
    "const": "is `{}`", "minimum": "at least {:,}", "maximum": "at most {:,}", "exclusiveMinimum": "above {:,}", "exclusiveMaximum": "below {:,}",
    "multipleOf": "a multiple of {:,}", "minItems": "items at least {:,}", "maxItems": "items at most {:,}", "minLength": "length at least {:,}",
    "maxLength": "length at most {:,}", "x-max-bytes": "at most {:,} bytes", "x-bytes": "{} bytes", "pattern": "matches `{}`",
}


def asyncapi(document):
    """Returns the page of the topics and records."""
    components = document["components"]
    out = ["# Records on the log", "[asyncapi.yaml](asyncapi.yaml) is the same for programs.",
           re.sub(r"^#", "##", document["info"]["description"], flags=re.MULTILINE), "## Topics"]
    for channel in document["channels"].values():
        out += [f"### Topic `{channel['address']}`", text(channel["description"])]
        out.append(f"Partitions: {text(str(channel['x-partitions']))}. Written by: {channel['x-written-by']}.")
        out.append("Records: " + ", ".join(_link(m) for m in channel["messages"].values()) + ".")
    out.append("## Records")
    for name, message in components["messages"].items():
        out += [f"### Record `{name}`", text(message["summary"]), "Value: " + _kind(message["payload"]) + "."]
        headers = message.get("headers", {}).get("allOf", [])
        if headers:
            out.append(f"Headers: {_kind(headers[0])}, where `schema` is `{message['name']}`.")
        elif "headers" in message:
            out.append(_table(["header", "value", "meaning"], _rows(message["headers"], "")))
    return "\n\n".join(out + _schemas(components["schemas"])) + "\n"


def openapi(document):
    """Returns the page of the HTTP interface."""
    out = ["# HTTP interface", "[openapi.yaml](openapi.yaml) is the same for programs. [Ingest](../ingest.md) tells how to start it."]
    out.append(text(document["info"]["description"]))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            out += [f"## {method.upper()} `{path}`", text(operation["summary"][:1].upper() + operation["summary"][1:]) + "."]
            bodies = operation["requestBody"]["content"].items()
            out.append(_table(["body", "what it holds"], [[f"`{name}`", _described(body["schema"])] for name, body in bodies]))
            answers = operation["responses"].items()
            out.append(_table(["status", "meaning", "body"], [[code, text(a["description"]), _body(a)] for code, a in answers]))
    components = document["components"]
    for scheme in components["securitySchemes"].values():
        out.append(f"With `{scheme['description']}` set, a request has the header `Authorization: {scheme['scheme'].capitalize()} TOKEN`.")
    return "\n\n".join(out + _schemas(components["schemas"])) + "\n"


def text(words):
    """Escapes what Markdown would take for marks, and what would end a cell."""
    parts = words.strip().split("`")
    parts[::2] = [re.sub(r"([*\[\]_|])", r"\\\1", part.replace("<", "&lt;")) for part in parts[::2]]
    return "`".join(parts)


def _schemas(schemas):
    out = ["## Schemas"]
    for name, schema in schemas.items():
        out += [f"### Schema `{name}`", text(schema.get("description", ""))]
        if "properties" not in schema:
            out.append(f"It is {_kind(schema)}. {_bounds(schema)}".strip())
            continue
        out.append(_table(["key", "value", "meaning"], _rows(schema, "")))
    return out


def _rows(schema, prefix):
    """Gives a row for each key, and for each key of the objects in its lists."""
    required = schema.get("required", [])
    for name, value in schema["properties"].items():
        kind = _kind(value) + ("" if name in required else ", optional")
        yield [f"`{prefix}{name}`", kind, " ".join(filter(None, [text(value.get("description", "")), _bounds(value)]))]
        if "properties" in value.get("items", {}):
            yield from _rows(value["items"], f"{prefix}{name}[].")


def _kind(schema):
    """Names the type of a value, and links what it consists of."""
    if "$ref" in schema:
        return _link(schema)
    if "allOf" in schema:
        return " and ".join(_kind(part) for part in schema["allOf"])
    if "oneOf" in schema and "type" not in schema:
        return " or ".join(_kind(part) for part in schema["oneOf"])
    kind = schema.get("x-msgpack") or schema.get("type", "any value")
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    if "items" in schema:
        return f"{kind} of {_kind(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{kind} of {_kind(schema['additionalProperties'])}"
    return f"{kind} ({schema['format']})" if schema.get("format") not in (None, kind, "binary", "float", "double") else kind


def _described(schema):
    return ". ".join(filter(None, [_kind(schema), text(schema.get("description", ""))]))


def _bounds(schema):
    said = [form.format(schema[name]) for name, form in BOUNDS.items() if name in schema]
    if "enum" in schema:
        said.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    words = ", ".join(said).replace("|", r"\|")
    return words[:1].upper() + words[1:] + "." if words else ""


def _link(reference):
    kind, name = reference["$ref"].split("/")[-2:]
    return f"[`{name}`](#{'record' if kind == 'messages' else 'schema'}-{name.lower()})"


def _body(answer):
    return ", ".join(_kind(content["schema"]) for content in answer.get("content", {}).values())


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(" ".join(cell.split()) for cell in line) + " |" for line in lines)
