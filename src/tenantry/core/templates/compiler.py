"""Nodes into closures: what can be known without data is decided here, once.

Each closure takes a frame, does one thing and charges the budget for it. Errors that do not depend
on data (a wrong count of arguments, a constant of the wrong type, a template that does not exist)
are refused here, where Go finds them only when the action is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tenantry.core.templates import budget, errors, lexer, nodes, printing, values
from tenantry.core.templates.functions import registry


class Frame:
    """What one template sees while it is filled: the current value and its variables."""

    __slots__ = ("budget", "dot", "variables")

    def __init__(self, counted: budget.Budget, dot: Any, variables: int) -> None:
        self.budget = counted
        self.dot = dot
        self.variables: list[Any] = [values.MISSING] * variables
        self.variables[0] = dot


Evaluate = Callable[[Frame], Any]
#: A stage of a pipeline is given what the stage before it gave.
Stage = Callable[[Frame, Any], Any]
#: A statement says whether a loop is to be left ("break") or begun anew ("continue").
Run = Callable[[Frame], "str | None"]


class Compiler:
    """One compilation; `mutates` tells whether a function in it changes maps."""

    def __init__(self, bodies: Mapping[str, nodes.Body], missing_key: str) -> None:
        self._bodies = bodies
        self._missing_key = missing_key
        self._compiled: dict[str, tuple[Run, int]] = {}
        self.mutates = False

    def compile(self, main: nodes.Body) -> Run:
        for name, body in self._bodies.items():
            self._compiled[name] = (self._block(body.statements), body.variables)
        return self._block(main.statements)

    # Statements.

    def _block(self, statements: tuple[nodes.Statement, ...]) -> Run:
        runs = tuple(self._statement(statement) for statement in statements)
        if len(runs) == 1:
            return runs[0]

        def run(frame: Frame) -> str | None:
            for each in runs:
                signal = each(frame)
                if signal:
                    return signal
            return None

        return run

    def _statement(self, statement: nodes.Statement) -> Run:
        match statement:
            case nodes.Text(_, text):
                return _write(text)
            case nodes.Action():
                return self._action(statement)
            case nodes.Branch(keyword="range"):
                return self._range(statement)
            case nodes.Branch():
                return self._choice(statement)
            case nodes.Leave(_, keyword):
                return _leave(keyword)
            case nodes.Call():
                return self._call(statement)

    def _action(self, action: nodes.Action) -> Run:
        pipeline = action.pipeline
        evaluate = self._pipeline(pipeline)
        if pipeline.slots:

            def run(frame: Frame) -> None:
                evaluate(frame)
        else:

            def run(frame: Frame) -> None:
                value = evaluate(frame)
                if isinstance(value, str):
                    frame.budget.write(value)
                else:
                    frame.budget.write(printing.shown(value, frame.budget))

        return _located(run, action.at)

    def _choice(self, branch: nodes.Branch) -> Run:
        evaluate = self._pipeline(branch.pipeline)
        body, otherwise = self._block(branch.body), self._block(branch.otherwise)
        if branch.keyword == "if":
            return lambda frame: (body if values.true(evaluate(frame)) else otherwise)(frame)

        def run(frame: Frame) -> str | None:
            value = evaluate(frame)
            if not values.true(value):
                return otherwise(frame)
            outer, frame.dot = frame.dot, value
            signal = body(frame)
            frame.dot = outer
            return signal

        return run

    def _range(self, branch: nodes.Branch) -> Run:
        evaluate = self._pipeline(branch.pipeline)
        body, otherwise = self._block(branch.body), self._block(branch.otherwise)
        slots = branch.pipeline.slots

        def run(frame: Frame) -> str | None:
            items = _items(evaluate(frame), frame.budget, two=len(slots) == 2)
            if not items:
                return otherwise(frame)
            outer = frame.dot
            for key, item in items:
                frame.budget.step()
                if slots:
                    frame.variables[slots[-1]] = item
                    if len(slots) == 2:
                        frame.variables[slots[0]] = key
                frame.dot = item
                signal = body(frame)
                if signal == "break":
                    break
            frame.dot = outer
            return None

        return _located(run, branch.at)

    def _call(self, call: nodes.Call) -> Run:
        if call.name not in self._bodies:
            known = ", ".join(sorted(map(repr, self._bodies))) or "none"
            raise lexer.Refusal(
                call.at, f"template {call.name!r} is not defined; defined are: {known}"
            )
        evaluate = self._pipeline(call.pipeline) if call.pipeline else None
        name, compiled = call.name, self._compiled

        def run(frame: Frame) -> None:
            counted = frame.budget
            counted.step()
            counted.enter()
            body, variables = compiled[name]
            dot = evaluate(frame) if evaluate else values.MISSING
            body(Frame(counted, dot, variables))
            counted.leave()

        return _located(run, call.at)

    # Pipelines.

    def _pipeline(self, pipeline: nodes.Pipeline) -> Evaluate:
        first = self._command(pipeline.commands[0], piped=False)
        rest = tuple(self._command(command, piped=True) for command in pipeline.commands[1:])
        slots = pipeline.slots

        def evaluate(frame: Frame) -> Any:
            value = first(frame, None)
            if value is None:
                value = values.MISSING
            for stage in rest:
                value = stage(frame, value)
                if value is None:
                    value = values.MISSING
            for slot in slots:
                frame.variables[slot] = value
            return value

        return evaluate

    def _command(self, command: nodes.Command, *, piped: bool) -> Stage:
        head, *arguments = command.operands
        if isinstance(head, nodes.Function):
            return self._function(head, arguments, piped=piped)
        if isinstance(head, nodes.Literal) and head.value is None:
            raise lexer.Refusal(head.at, "nil is not a command")
        if arguments or piped:
            at = arguments[0].at if arguments else head.at
            raise lexer.Refusal(at, "only a function can be given arguments")
        evaluate = self._operand(head)
        return lambda frame, _: evaluate(frame)

    def _operand(self, node: nodes.Operand) -> Evaluate:
        match node:
            case nodes.Literal(_, constant):
                return lambda _: constant
            case nodes.Dot():
                return _dot
            case nodes.Field(at, names):
                return self._fields(_dot, names, at)
            case nodes.Variable(at, slot, _, names):
                return self._fields(_variable(slot), names, at)
            case nodes.Chain(at, base, names):
                return self._fields(self._operand(base), names, at)
            case nodes.Function():
                stage = self._function(node, [], piped=False)
                return lambda frame: stage(frame, None)
            case nodes.Pipeline():
                return self._pipeline(node)

    def _fields(self, base: Evaluate, names: tuple[str, ...], at: int) -> Evaluate:
        if not names:
            return base
        missing_key = self._missing_key

        def evaluate(frame: Frame) -> Any:
            frame.budget.step()
            value = base(frame)
            try:
                for name in names:
                    value = _field(value, name, missing_key)
            except errors.Failure as failure:
                failure.at = at
                raise
            return value

        return evaluate

    # Functions.

    def _function(
        self, node: nodes.Function, operands: list[nodes.Operand], *, piped: bool
    ) -> Stage:
        function = registry.FUNCTIONS[node.name]
        count = len(operands) + piped
        if count < len(function.parameters) or (
            count > len(function.parameters) and not function.rest
        ):
            raise lexer.Refusal(
                node.at, f"wrong number of arguments, found {count}; accepted: {function.usage}"
            )
        self.mutates = self.mutates or function.mutates
        arguments = tuple(
            self._argument(operand, function.parameter(index), node.name)
            for index, operand in enumerate(operands)
        )
        convert = registry.CONVERT[function.parameter(len(operands))] if piped else None
        if node.name in {"and", "or"}:
            return _logic(arguments, piped=piped, stop=node.name == "or")
        call, name, at = function.call, node.name, node.at

        def stage(frame: Frame, final: Any) -> Any:
            counted = frame.budget
            counted.step()
            given = [argument(frame) for argument in arguments]
            try:
                if convert is not None:
                    given.append(convert(final))
                return call(counted, *given)
            except errors.Failure as failure:
                if failure.at is None:
                    failure.at = at
                    failure.args = (f"{name}: {failure}",)
                raise
            except (ValueError, ArithmeticError, LookupError) as problem:
                broken = errors.Failure(f"{name}: {problem}")
                broken.at = at
                raise broken from None

        return stage

    def _argument(self, node: nodes.Operand, wanted: str, name: str) -> Evaluate:
        if isinstance(node, nodes.Literal):
            try:
                constant = registry.literal(node, wanted)
            except errors.Failure as failure:
                raise lexer.Refusal(node.at, f"{name}: {failure}") from None
            return lambda _: constant
        evaluate, convert, at = self._operand(node), registry.CONVERT[wanted], node.at

        def argument(frame: Frame) -> Any:
            value = evaluate(frame)
            try:
                return convert(value)
            except errors.Failure as failure:
                failure.at = at
                failure.args = (f"{name}: {failure}",)
                raise

        return argument


def _dot(frame: Frame) -> Any:
    return frame.dot


def _variable(slot: int) -> Evaluate:
    return lambda frame: frame.variables[slot]


def _write(text: str) -> Run:
    def run(frame: Frame) -> None:
        frame.budget.step()
        frame.budget.write(text)

    return run


def _leave(keyword: str) -> Run:
    return lambda _: keyword


def _located(run: Run, at: int) -> Run:
    """Say where an error was, unless something inside has said it."""

    def located(frame: Frame) -> str | None:
        try:
            frame.budget.step()
            return run(frame)
        except errors.Failure as failure:
            if failure.at is None:
                failure.at = at
            raise

    return located


def _logic(arguments: tuple[Evaluate, ...], *, piped: bool, stop: bool) -> Stage:
    """``and`` and ``or``: the first argument that decides, or the last; the rest is not looked at."""

    def stage(frame: Frame, final: Any) -> Any:
        frame.budget.step()
        value: Any = values.MISSING
        for argument in arguments:
            value = argument(frame)
            if values.true(value) is stop:
                return value
        return final if piped else value

    return stage


def _field(value: Any, name: str, missing_key: str) -> Any:
    if isinstance(value, dict):
        try:
            return value[name]
        except KeyError:
            if missing_key == "error":
                known = ", ".join(sorted(map(str, value))[:8])
                raise errors.Failure(
                    f"map has no entry for key {name!r}; it has: {known}"
                ) from None
            if missing_key == "zero":
                return "" if isinstance(value, values.StringMap) else None
            return values.MISSING
    if value is values.MISSING:
        if missing_key == "error":
            raise errors.Failure(f"no value has no entry for key {name!r}")
        return value
    if value is None:
        raise errors.Failure(f"null has no field {name!r}")
    if isinstance(value, values.Opaque) and name in value.attributes:
        return value.attributes[name]
    raise errors.Failure(f"a value of type {values.type_name(value)} has no field {name!r}")


def _items(value: Any, counted: budget.Budget, *, two: bool) -> Iterable[tuple[Any, Any]]:
    """Give what a range goes over, with keys; whatever the body changes, the loop stays the same."""
    if isinstance(value, list):
        counted.make(len(value))
        return [(values.Int(index), item) for index, item in enumerate(value)]
    if isinstance(value, dict):
        counted.make(len(value))
        return [(key, value[key]) for key in sorted(value)]
    if isinstance(value, int) and not isinstance(value, bool):
        if two:
            raise errors.Failure("a range over a number has one variable only")
        number = type(value)
        # Not made into a list: every turn of the loop is paid for by itself.
        return ((number(index), number(index)) for index in range(value)) if value > 0 else []
    if value is values.MISSING:
        return []
    raise errors.Failure(
        f"range over a value of type {values.type_name(value)}; accepted: list, map, number"
    )
