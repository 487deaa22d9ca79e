"""Tokens into nodes: syntax, variables and names of functions are checked here."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from tenantry.core.templates import budget, constants, lexer, nodes

_STARTS = "a field, a variable, a function, a constant or a parenthesis"


class Parser:
    """One reading of one source."""

    def __init__(self, source: str, functions: Collection[str]) -> None:
        self._tokens = lexer.tokens(source)
        self._next = 0
        self._functions = functions
        self._depth = 0
        self._ranges = 0
        self._scope: dict[str, int] = {"$": 0}
        self._variables = 1
        self.bodies: dict[str, nodes.Body] = {}

    def parse(self) -> nodes.Body:
        """Read the main template; those defined on the way are in `bodies`."""
        statements, end = self._statements(top=True)
        if end.kind != "eof":
            raise lexer.Refusal(
                end.at, f"unexpected {{{{{end.text}}}}}: there is no block to close"
            )
        return nodes.Body(statements, self._variables)

    # Tokens.

    def _take(self) -> lexer.Token:
        token = self._tokens[self._next]
        self._next += token.kind != "eof"
        return token

    def _take_word(self) -> lexer.Token:
        self._skip_space()
        return self._take()

    def _skip_space(self) -> None:
        while self._tokens[self._next].kind == "space":
            self._next += 1

    def _peek(self) -> lexer.Token:
        return self._tokens[self._next]

    def _expect(self, kind: str, where: str) -> lexer.Token:
        token = self._take_word()
        if token.kind != kind:
            raise _unexpected(token, where)
        return token

    # Statements.

    def _statements(self, *, top: bool = False) -> tuple[tuple[nodes.Statement, ...], lexer.Token]:
        """Read up to ``end``, ``else`` or the end of the text, and return that token too."""
        found: list[nodes.Statement] = []
        while True:
            token = self._take()
            if token.kind == "text":
                found.append(nodes.Text(token.at, token.text))
                continue
            if token.kind == "eof":
                return tuple(found), token
            self._skip_space()
            word = self._peek()
            if word.kind in {"end", "else"}:
                self._next += 1
                return tuple(found), word
            if word.kind == "define":
                if not top:
                    raise lexer.Refusal(word.at, "{{define}} must not stand inside a block")
                self._next += 1
                self._define(word)
            else:
                found.append(self._statement(word))

    def _statement(self, word: lexer.Token) -> nodes.Statement:
        match word.kind:
            case "if" | "with" | "range":
                self._next += 1
                return self._branch(word)
            case "break" | "continue":
                self._next += 1
                self._expect("}}", word.kind)
                if not self._ranges:
                    raise lexer.Refusal(word.at, f"{{{{{word.kind}}}}} outside of {{{{range}}}}")
                return nodes.Leave(word.at, word.kind)
            case "template" | "block":
                self._next += 1
                return self._call(word)
            case _:
                return nodes.Action(word.at, self._pipeline("command", "}}"))

    def _branch(self, word: lexer.Token) -> nodes.Branch:
        self._deeper(word)
        outer = dict(self._scope)
        pipeline = self._pipeline(word.kind, "}}")
        looped = word.kind == "range"
        self._ranges += looped
        body, end = self._block(word)
        self._ranges -= looped
        otherwise: tuple[nodes.Statement, ...] = ()
        if end.kind == "else":
            otherwise = self._otherwise(word)
        self._scope = outer
        self._depth -= 1
        return nodes.Branch(word.at, word.kind, pipeline, body, otherwise)

    def _otherwise(self, word: lexer.Token) -> tuple[nodes.Statement, ...]:
        self._skip_space()
        following = self._peek()
        if following.kind == word.kind and word.kind in {"if", "with"}:
            # `else if` shares the `end` of the `if` before it.
            self._next += 1
            return (self._branch(following),)
        self._expect("}}", "else")
        statements, end = self._block(word)
        if end.kind != "end":
            raise _unexpected(end, f"the else of {word.kind}")
        return statements

    def _block(self, word: lexer.Token) -> tuple[tuple[nodes.Statement, ...], lexer.Token]:
        inner = dict(self._scope)
        statements, end = self._statements()
        if end.kind == "eof":
            raise lexer.Refusal(word.at, f"unclosed {{{{{word.kind}}}}}: {{{{end}}}} is missing")
        if end.kind == "end":
            self._expect("}}", "end")
        self._scope = inner
        return statements, end

    def _named(self, word: lexer.Token) -> str:
        token = self._take_word()
        if token.kind not in {"string", "raw"}:
            raise _unexpected(token, f"{word.kind}, which takes a quoted name")
        return constants.unquote(token)

    def _define(self, word: lexer.Token) -> None:
        name = self._named(word)
        self._expect("}}", "define")
        self._body(word, name)

    def _body(self, word: lexer.Token, name: str) -> None:
        """Read the body of a template that has variables of its own."""
        kept = self._scope, self._variables, self._ranges
        self._scope, self._variables, self._ranges = {"$": 0}, 1, 0
        self._deeper(word)
        statements, end = self._block(word)
        if end.kind != "end":
            raise _unexpected(end, word.kind)
        self._depth -= 1
        body = nodes.Body(statements, self._variables)
        self._scope, self._variables, self._ranges = kept
        known = self.bodies.get(name)
        if known is None or _is_blank(known):
            self.bodies[name] = body
        elif not _is_blank(body):
            raise lexer.Refusal(word.at, f"template {name!r} is defined twice")

    def _call(self, word: lexer.Token) -> nodes.Call:
        name = self._named(word)
        self._skip_space()
        if word.kind == "template" and self._peek().kind == "}}":
            self._next += 1
            return nodes.Call(word.at, name, None)
        pipeline = self._pipeline(word.kind, "}}")
        if word.kind == "block":
            self._body(word, name)
        return nodes.Call(word.at, name, pipeline)

    # Pipelines.

    def _pipeline(self, where: str, end: str) -> nodes.Pipeline:
        self._skip_space()
        at = self._peek().at
        names, declares = self._declared(where)
        commands: list[nodes.Command] = []
        while True:
            token = self._take_word()
            if token.kind == end:
                break
            if token.kind == "|" and commands:
                token = self._take_word()
                if token.kind == end:
                    # Go takes a last bar for nothing.
                    break
                if token.kind == "|":
                    raise lexer.Refusal(token.at, f"missing command after | in {where}")
            elif commands:
                raise _unexpected(token, where)
            self._next -= token.kind != "eof"
            commands.append(self._command(where))
        if not commands:
            raise lexer.Refusal(token.at, f"missing value for {where}")
        for command in commands[1:]:
            if isinstance(command.operands[0], (nodes.Literal, nodes.Dot)):
                raise lexer.Refusal(command.at, "only a function can stand after |")
        slots = tuple(self._slot(token, declares=declares) for token in names)
        return nodes.Pipeline(at, tuple(commands), slots)

    def _declared(self, where: str) -> tuple[list[lexer.Token], bool]:
        """Read ``$x :=``, ``$x =`` or, in a range, ``$i, $x :=``."""
        start = self._next
        names: list[lexer.Token] = []
        while self._peek().kind == "variable":
            names.append(self._take())
            self._skip_space()
            token = self._peek()
            if token.kind in {":=", "="}:
                self._next += 1
                return names, token.kind == ":="
            if token.kind != "," or where != "range" or len(names) > 1:
                if token.kind == "," or len(names) > 1:
                    raise lexer.Refusal(token.at, f"too many variables in {where}")
                break
            self._next += 1
            self._skip_space()
            if self._peek().kind != "variable":
                raise lexer.Refusal(self._peek().at, "range can only initialize variables")
        self._next = start
        return [], False

    def _slot(self, token: lexer.Token, *, declares: bool) -> int:
        if not declares:
            return self._known(token)
        self._scope[token.text] = self._variables
        self._variables += 1
        return self._variables - 1

    def _known(self, token: lexer.Token) -> int:
        slot = self._scope.get(token.text)
        if slot is None:
            known = ", ".join(sorted(self._scope))
            raise lexer.Refusal(token.at, f"undefined variable {token.text!r}; known are: {known}")
        return slot

    def _command(self, where: str) -> nodes.Command:
        at = self._peek().at
        operands: list[nodes.Operand] = []
        while True:
            self._skip_space()
            operand = self._operand()
            if operand is not None:
                operands.append(operand)
            token = self._peek()
            if token.kind == "space":
                continue
            if token.kind in {"}}", ")", "|"} and operands:
                return nodes.Command(at, tuple(operands))
            raise _unexpected(token, where if operand is None else "operand")

    def _operand(self) -> nodes.Operand | None:
        term = self._term()
        if term is None or self._peek().kind != "field":
            return term
        names: list[str] = []
        token = self._peek()
        while self._peek().kind == "field":
            names.append(self._take().text[1:])
        match term:
            case nodes.Field(at, first):
                return nodes.Field(at, first + tuple(names))
            case nodes.Variable(at, slot, name):
                return nodes.Variable(at, slot, name, tuple(names))
            case nodes.Function() | nodes.Pipeline():
                return nodes.Chain(token.at, term, tuple(names))
            case _:
                raise lexer.Refusal(
                    token.at, f"unexpected {token.text!r}: a constant has no fields"
                )

    def _term(self) -> nodes.Operand | None:
        token = self._take()
        match token.kind:
            case "word":
                return self._function(token)
            case ".":
                return nodes.Dot(token.at)
            case "nil":
                return nodes.Literal(token.at, None)
            case "true" | "false":
                return nodes.Literal(token.at, token.kind == "true")
            case "field":
                return nodes.Field(token.at, (token.text[1:],))
            case "variable":
                return nodes.Variable(token.at, self._known(token), token.text, ())
            case "number":
                return constants.number(token)
            case "char":
                code = constants.character(token)
                return constants.number(lexer.Token("number", str(code), token.at))
            case "string" | "raw":
                return nodes.Literal(token.at, constants.unquote(token))
            case "(":
                self._deeper(token)
                pipeline = self._pipeline("parenthesized pipeline", ")")
                self._depth -= 1
                return pipeline
            case _:
                self._next -= token.kind != "eof"
                return None

    def _function(self, token: lexer.Token) -> nodes.Function:
        if token.text not in self._functions:
            close = difflib.get_close_matches(token.text, self._functions, n=3)
            hint = f"did you mean {' or '.join(close)}? " if close else ""
            raise lexer.Refusal(
                token.at,
                f"function {token.text!r} is not defined; {hint}accepted are the functions listed "
                "in docs/expressions.md",
            )
        return nodes.Function(token.at, token.text)

    def _deeper(self, token: lexer.Token) -> None:
        self._depth += 1
        if self._depth > budget.DEPTH // 2:
            raise lexer.Refusal(token.at, f"nested more than {budget.DEPTH // 2} levels deep")


def _is_blank(body: nodes.Body) -> bool:
    return all(
        isinstance(statement, nodes.Text) and not statement.text.strip()
        for statement in body.statements
    )


def _unexpected(token: lexer.Token, where: str) -> lexer.Refusal:
    if token.kind == "eof":
        return lexer.Refusal(token.at, f"unexpected end of the template in {where}")
    return lexer.Refusal(token.at, f"unexpected {token.text!r} in {where}; accepted: {_STARTS}")
