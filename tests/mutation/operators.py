"""Changes of a source: each operator yields nodes of the syntax tree and their replacements."""

import ast
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

EXCHANGED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
"""Operators of Python, and the operator that replaces each."""

DOMAINS = {"sync": "comb", "comb": "sync"}
SHAPES = {"range", "unsigned", "signed"}

SKIPPED_CALLS = {"TypeVar", "require_integer", "cast"}
"""Calls without behaviour, or whose arguments are text for a reader."""
SKIPPED_NAMES = {"src_loc_at", "name", "attrs", "stacklevel"}
SYMMETRIC = {"min", "max", "connect"}

Change = tuple[str, ast.AST, str]
"""Name of the operator, node, and text that replaces the node."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes
    ----------
    path : str
        Module, as hdl/queue.py.
    name : str
        Path, line, operator, and number of the change among the operator's changes in the line.
    function : str
        Qualified name of the changed function; empty outside of functions.
    true : bytes
        True source.
    start, end : int
        Bytes that change.
    new : str
        Replacement of these bytes.
    """

    path: str
    name: str
    function: str
    true: bytes
    start: int
    end: int
    new: str

    @property
    def old(self) -> str:
        """Text that changes."""
        return self.true[self.start : self.end].decode()

    @property
    def source(self) -> str:
        """Changed source."""
        return (self.true[: self.start] + self.new.encode() + self.true[self.end :]).decode()

    @property
    def operator(self) -> str:
        """Kind of the change."""
        return self.name.split(":")[2]

    def compiles(self) -> bool:
        """Return whether Python accepts the changed source."""
        try:
            compile(self.source, self.path, "exec")
        except (SyntaxError, ValueError):
            return False
        return True


def candidates(path: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of a module, in the order of the source; some may not compile."""
    encoded, starts = source.encode(), [0]
    for line in encoded.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    counts: Counter[tuple[int, str]] = Counter()
    for function, (operator, node, new) in _changes(ast.parse(source), ""):
        number = counts[node.lineno, operator]
        counts[node.lineno, operator] += 1
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        name = f"{path}:{node.lineno}:{operator}:{number}"
        yield Mutant(path, name, function, encoded, start, end, new)


def mutants(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a module that compile, in the order of the source."""
    return [mutant for mutant in candidates(path, source) if mutant.compiles()]


def draw(mutants: list[Mutant], *, seed: int, count: int) -> list[Mutant]:
    """Draw mutants: first a function, then an operator, then a change."""
    functions: dict = defaultdict(lambda: defaultdict(list))
    for mutant in mutants:
        functions[mutant.path, mutant.function][mutant.operator].append(mutant)
    choose, drawn = random.Random(seed), []
    while functions and len(drawn) < count:
        # Functions before operators, and operators before changes: constants are many.
        for function in choose.sample(sorted(functions), len(functions)):
            operators = functions[function]
            changes = operators.pop(choose.choice(sorted(operators)))
            drawn.append(choose.choice(changes))
            if not operators:
                del functions[function]
    return drawn[:count]


def _changes(parent: ast.AST, home: str) -> Iterator[tuple[str, Change]]:
    """Yield the changes below a node, each with the function that contains the change."""
    within = home.endswith("()")
    for node in _behaviour(parent):
        inner = home
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not within:
            inner = f"{home}.{node.name}".strip(".") + "()" * isinstance(node, ast.FunctionDef)
        function = inner[:-2] if inner.endswith("()") else ""
        for operator in OPERATORS:
            yield from ((function, change) for change in operator(node))
        yield from _changes(node, inner)


def _behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node that define behaviour."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.Call) and _called(node) in SKIPPED_CALLS:
        return
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            match child:
                case ast.keyword(arg=name) if name in SKIPPED_NAMES:
                    pass
                case ast.keyword(arg="reset_less", value=ast.Constant(value=True)):
                    pass  # The change would only reset a register that needs no reset.
                case ast.If(test=ast.Name("TYPE_CHECKING")):
                    pass
                case ast.AST():
                    yield child


def _called(node: ast.Call) -> str:
    """Return the last part of the name that is called."""
    return ast.unparse(node.func).rpartition(".")[2]


def _with(node: ast.AST, **fields: object) -> str:
    """Return the text of a node with other fields."""
    changed = type(node)(**{name: getattr(node, name) for name in node._fields} | fields)
    return ast.unparse(ast.copy_location(changed, node))


# Operators


def constants(node: ast.AST) -> Iterator[Change]:
    """Add or subtract one; invert a truth value."""
    match node:
        case ast.Constant(value=bool(value)):
            yield "boolean", node, str(not value)
        case ast.Constant(value=int(value)):
            yield "constant", node, str(value + 1)
            if value > 0:
                yield "constant", node, str(value - 1)


def exchanges_of_operators(node: ast.AST) -> Iterator[Change]:
    """Replace an operator; keep one side of a mask."""
    match node:
        case ast.Compare(ops=signs):
            for at, sign in enumerate(signs):
                others = [*signs[:at], EXCHANGED[type(sign)](), *signs[at + 1 :]]
                yield "comparison", node, f"({_with(node, ops=others)})"
        case ast.BinOp(left, sign, right) if type(sign) in EXCHANGED:
            yield "calculation", node, f"({_with(node, op=EXCHANGED[type(sign)]())})"
            if isinstance(sign, ast.BitAnd | ast.BitOr):
                for kept in (left, right):
                    yield "operand", node, f"({ast.unparse(kept)})"


def conditions(node: ast.AST) -> Iterator[Change]:
    """Negate or drop a condition, a part of a condition, or a sign."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "negation", test, f"(not ({ast.unparse(test)}))"
        case ast.comprehension(ifs=tests):
            yield from (("condition", test, "True") for test in tests)
        case ast.BoolOp(values=values):
            for at in range(len(values)):
                kept = [*values[:at], *values[at + 1 :]]
                rest = _with(node, values=kept) if len(kept) > 1 else ast.unparse(kept[0])
                yield "operand", node, f"({rest})"
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield "sign", node, f"({ast.unparse(operand)})"
        case ast.Call(args=[test]) if _called(node) in {"If", "Elif"}:
            yield "negation", test, f"({ast.unparse(test)}) == 0"
            yield "condition", test, "1"


def assignments(node: ast.AST) -> Iterator[Change]:
    """Leave out an assignment of the hardware; add or remove a register."""
    match node:
        case ast.AugAssign(target=ast.Attribute(value=ast.Attribute(attr="d"), attr=domain)):
            elements = node.value.elts if isinstance(node.value, ast.List) else []
            if len(elements) < 2:
                yield "assignment", node, "pass"
            else:
                calls = (element for element in elements if isinstance(element, ast.Call))
                yield from (("assignment", call, "*()") for call in calls)
            if other := DOMAINS.get(domain):
                yield "domain", node.target, _with(node.target, attr=other)


def statements(node: ast.AST) -> Iterator[Change]:
    """Leave out a statement that is no hardware."""
    match node:
        case ast.AugAssign(target=ast.Attribute(value=ast.Attribute(attr="d"))):
            pass
        case ast.Assign(targets=[ast.Attribute(value=ast.Name("self"))]):
            pass  # An object without its attributes fails everywhere.
        case ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", node, "pass"
        case ast.Expr(value=ast.Call()) if not ast.unparse(node).startswith("super()."):
            yield "statement", node, "pass"


def widths(node: ast.AST) -> Iterator[Change]:
    """Reset a register to zero; make a signal too narrow."""
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        if keyword.arg in {"init", "reset"} and ast.unparse(keyword.value) != "0":
            yield "reset", keyword.value, "0"
    sized = _called(node) == "Signal" or (_called(node) in SHAPES and len(node.args) == 1)
    if sized and node.args and isinstance(node.args[0], ast.BinOp | ast.Name | ast.Attribute):
        yield "width", node.args[0], f"({ast.unparse(node.args[0])}) - 1"


def exchanges_of_arguments(node: ast.AST) -> Iterator[Change]:
    """Exchange two neighbours among the arguments of a call."""
    if not isinstance(node, ast.Call) or _called(node) in SYMMETRIC:
        return
    for at, (left, right) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if all(map(_can_be_exchanged, (left, right))) and ast.dump(left) != ast.dump(right):
            args = [*node.args[:at], right, left, *node.args[at + 2 :]]
            yield "exchange", node, _with(node, args=args)


def _can_be_exchanged(node: ast.AST) -> bool:
    """Return whether an argument is neither text nor a module of Amaranth."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str)
    return not isinstance(node, ast.Starred | ast.JoinedStr) and ast.unparse(node) != "m"


OPERATORS = (
    constants,
    exchanges_of_operators,
    conditions,
    assignments,
    statements,
    widths,
    exchanges_of_arguments,
)
