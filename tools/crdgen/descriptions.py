"""Texts for `kubectl explain`: the docstring of a Struct and the strings below its fields."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import textwrap
from typing import Any


def of_struct(struct: type[Any]) -> str:
    """Return the docstring of a Struct as flowing text, "" without one."""
    return flow(struct.__doc__ or "")


def of_fields(struct: type[Any]) -> dict[str, str]:
    """Return the text below each field of a Struct, those of its bases included."""
    texts: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base is not object and base.__module__ != "msgspec" and "__annotations__" in vars(base):
            texts.update(_own(base))
    return texts


@functools.cache
def _own(struct: type[Any]) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(struct)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    texts = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    texts[field.target.id] = flow(text)
    return texts


def flow(text: str) -> str:
    """Join the lines of each paragraph; paragraphs stay apart."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).strip()
