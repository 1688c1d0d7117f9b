"""Changes of a source, drawn from its syntax tree."""

import ast
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

COMPARED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
CALCULATED = {
    "+": "-", "-": "+", "*": "//", "//": "*", "%": "//", "<<": ">>", ">>": "<<",
    "&": "|", "|": "&", "^": "|",
}  # fmt: skip
SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
CONDITIONS = {"If", "Elif"}
DOMAINS = {"sync": "comb", "comb": "sync"}
SHAPES = {"range", "unsigned", "signed"}

# What is in them is no behaviour, or text that a reader sees.
SKIPPED_CALLS = {"TypeVar", "require_integer", "cast"}
SYMMETRIC = {"min", "max", "connect"}
SKIPPED_NAMES = {"src_loc_at", "name", "attrs", "stacklevel"}


@dataclass(frozen=True)
class Change:
    """A piece of a source, and what takes its place."""

    operator: str
    line: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes
    ----------
    path : str
        Of the module in the repository.
    function : str
        Qualified name of the function that is changed; empty outside of functions.
    name : str
        Path, line, operator, and number among the changes of that operator in that line.
    start, end : int
        Bytes of the source that are replaced.
    old, new : str
    """

    path: str
    function: str
    name: str
    start: int
    end: int
    old: str
    new: str

    @property
    def operator(self) -> str:
        """Kind of the change."""
        return self.name.split(":")[2]

    def apply(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


class Source:
    """A source as bytes, with the places of the nodes of its tree.

    Parameters
    ----------
    path : str
        Of the module in the repository.
    source : bytes
    """

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.tree = ast.parse(source)

    @cached_property
    def _lines(self) -> list[int]:
        starts = [0]
        for line in self.source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def start(self, node: ast.AST) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def replaced(self, operator: str, node: ast.AST, text: str) -> Change:
        """Return the change of a node to a text."""
        return Change(operator, node.lineno, self.start(node), self.end(node), text)

    def between(
        self, operator: str, left: ast.AST, right: ast.AST, old: str, new: str
    ) -> Iterator[Change]:
        """Yield the change of a sign between two nodes."""
        start = self.end(left)
        place = self.source.find(old.encode(), start, self.start(right))
        # A comment may have the sign in it.
        if place >= 0 and b"#" not in self.source[start:place]:
            yield Change(operator, left.end_lineno, place, place + len(old), new)

    def mutants(self) -> Iterator[Mutant]:
        """Yield all mutants that can be compiled, in the order of the source."""
        return filter(self.compiles, self.candidates())

    def compiles(self, mutant: Mutant) -> bool:
        """Return whether a mutant of this source can be compiled."""
        try:
            compile(mutant.apply(self.source), self.path, "exec")
        except (SyntaxError, ValueError):
            return False
        return True

    def candidates(self) -> Iterator[Mutant]:
        """Yield all mutants, also such as cannot be compiled, in the order of the source."""
        counts: Counter[tuple[int, str]] = Counter()
        for function, change in self._changes(self.tree, ""):
            number = counts[change.line, change.operator]
            counts[change.line, change.operator] += 1
            yield Mutant(
                path=self.path,
                function=function,
                name=f"{self.path}:{change.line}:{change.operator}:{number}",
                start=change.start,
                end=change.end,
                old=self.source[change.start : change.end].decode(),
                new=change.text,
            )

    def _changes(self, parent: ast.AST, home: str) -> Iterator[tuple[str, Change]]:
        within = home.endswith("()")
        for node in behaviour(parent):
            inner = home
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not within:
                inner = f"{home}.{node.name}".strip(".")
                inner += "()" * isinstance(node, ast.FunctionDef)
            for rule in RULES:
                for change in rule(self, node):
                    yield (inner[:-2] if inner.endswith("()") else ""), change
            yield from self._changes(node, inner)


def behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node that say what the program does."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.Call) and called(node) in SKIPPED_CALLS:
        return
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and (child.arg in SKIPPED_NAMES or resets(child)):
                continue
            if isinstance(child, ast.AST) and not is_checking_types(child):
                yield child


def resets(keyword: ast.keyword) -> bool:
    """Whether all that can change is that a register is reset which need not be."""
    return keyword.arg == "reset_less" and ast.unparse(keyword.value) == "True"


def is_checking_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def called(node: ast.Call) -> str:
    """Return the last part of the name that is called."""
    return ast.unparse(node.func).rpartition(".")[2]


def domain(node: ast.AST) -> str:
    """Return the clock domain that a statement adds to."""
    match node:
        case ast.AugAssign(target=ast.Attribute(value=ast.Attribute(attr="d"), attr=name)):
            return name
    return ""


# The rules: each yields the changes of one node.


def constants(source: Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Constant):
        if type(node.value) is int:
            yield source.replaced("constant", node, str(node.value + 1))
            if node.value > 0:
                yield source.replaced("constant", node, str(node.value - 1))
        elif type(node.value) is bool:
            yield source.replaced("boolean", node, str(not node.value))


def comparisons(source: Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, sign, right in zip(operands, node.ops, operands[1:], strict=False):
            old = SIGNS[type(sign)]
            yield from source.between("comparison", left, right, old, COMPARED[old])


def calculations(source: Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        old = SIGNS[type(node.op)]
        yield from source.between("calculation", node.left, node.right, old, CALCULATED[old])
        # A stall left out, a mask forgotten.
        if old in "&|":
            for kept in (node.left, node.right):
                yield source.replaced("operand", node, f"({source.text(kept)})")


def conditions(source: Source, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield source.replaced("negation", node.test, f"(not ({source.text(node.test)}))")
    if isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield source.replaced("condition", test, "True")
    if isinstance(node, ast.BoolOp):
        for dropped in range(len(node.values)):
            kept = [f"({source.text(n)})" for i, n in enumerate(node.values) if i != dropped]
            joint = " and " if isinstance(node.op, ast.And) else " or "
            yield source.replaced("operand", node, f"({joint.join(kept)})")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield source.replaced("sign", node, f"({source.text(node.operand)})")
    if isinstance(node, ast.Call) and called(node) in CONDITIONS and len(node.args) == 1:
        text = source.text(node.args[0])
        yield source.replaced("negation", node.args[0], f"({text}) == 0")
        yield source.replaced("condition", node.args[0], "1")


def assignments(source: Source, node: ast.AST) -> Iterator[Change]:
    """Hardware left out; a register where there was none, or none where there was one."""
    if not isinstance(node, ast.AugAssign) or not domain(node):
        return
    elements = node.value.elts if isinstance(node.value, ast.List) else []
    if len(elements) < 2:
        yield source.replaced("assignment", node, "pass")
    else:
        for element in elements:
            if isinstance(element, ast.Call):
                yield source.replaced("assignment", element, "*()")
    if other := DOMAINS.get(domain(node)):
        end = source.end(node.target)
        yield Change("domain", node.lineno, end - len(domain(node)), end, other)


def statements(source: Source, node: ast.AST) -> Iterator[Change]:
    left_out = False
    match node:
        case ast.AugAssign():
            left_out = not domain(node)
        # Without what an object is made of, nothing works.
        case ast.Assign(targets=[ast.Attribute(value=ast.Name("self"))]):
            left_out = False
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            left_out = True
        case ast.Expr(value=ast.Call()):
            left_out = not source.text(node).startswith("super().")
    if left_out:
        yield source.replaced("statement", node, "pass")


def widths(source: Source, node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        if keyword.arg in {"init", "reset"} and source.text(keyword.value) != "0":
            yield source.replaced("reset", keyword.value, "0")
    sized = called(node) == "Signal" or (called(node) in SHAPES and len(node.args) == 1)
    if sized and node.args and isinstance(node.args[0], ast.BinOp | ast.Name | ast.Attribute):
        yield source.replaced("width", node.args[0], f"({source.text(node.args[0])}) - 1")


def exchanges(source: Source, node: ast.AST) -> Iterator[Change]:
    """Operands and ports swapped: neighbours among the arguments of a call."""
    if not isinstance(node, ast.Call) or called(node) in SYMMETRIC:
        return
    for left, right in zip(node.args, node.args[1:], strict=False):
        if not (can_be_exchanged(left) and can_be_exchanged(right)):
            continue
        if source.text(left) == source.text(right):
            continue
        gap = source.source[source.end(left) : source.start(right)].decode()
        if gap.strip() == ",":
            text = f"{source.text(right)}{gap}{source.text(left)}"
            start, end = source.start(left), source.end(right)
            yield Change("exchange", left.lineno, start, end, text)


def can_be_exchanged(node: ast.AST) -> bool:
    """Whether a neighbour may stand for it: neither text nor a module of Amaranth."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str)
    return not isinstance(node, ast.Starred | ast.JoinedStr) and ast.unparse(node) != "m"


RULES = (
    constants,
    comparisons,
    calculations,
    conditions,
    assignments,
    statements,
    widths,
    exchanges,
)


def draw(mutants: list[Mutant], *, seed: int, each: int) -> list[Mutant]:
    """Draw mutants of each function, each of another kind, in an order of the seed.

    What is drawn of a function depends on nothing but the seed and the function, so that a
    change elsewhere does not draw anew.

    Parameters
    ----------
    mutants : list of Mutant
    seed : int
    each : int
        Of a function at most.
    """
    functions = defaultdict(lambda: defaultdict(list))
    for mutant in mutants:
        functions[mutant.path, mutant.function][mutant.operator].append(mutant)
    drawn = []
    for (path, function), kinds in functions.items():
        choose = random.Random(f"{seed}:{path}:{function}")
        # Kinds of changes before changes: constants are many.
        for kind in choose.sample(sorted(kinds), min(each, len(kinds))):
            drawn.append(choose.choice(kinds[kind]))
    random.Random(seed).shuffle(drawn)
    return drawn
