"""YAML as manifests have it, by the library's parts in C: CRDs take its Python parts seconds.

For text of people who already may do what it says; templates read what tenants write, in
`core.templates.functions.documents`.
"""

from __future__ import annotations

from typing import Any


def read(text: str | bytes) -> list[Any]:
    """Return all documents, without empty ones.

    :raises YAMLError: with the place
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [found for found in yaml.load_all(text, loader) if found is not None]


def problem(error: Exception) -> str:
    """Say in one line what is wrong with a text, and where: "line 1, column 4: expected ...".

    :param error: a YAMLError or a UnicodeDecodeError
    """
    import yaml

    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())


def write(*documents: Any, width: int = 80) -> str:
    """Write decoded JSON values, each written out where it is used, keys in their order.

    :param width: in characters, of lines that may be folded
    """
    import yaml

    base: type = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    # Else a part that two share would be named once and referred to.
    plain = type("Plain", (base,), {"ignore_aliases": lambda _self, _data: True})
    text: str = yaml.dump_all(
        documents, Dumper=plain, sort_keys=False, allow_unicode=True, width=width
    )
    return text
