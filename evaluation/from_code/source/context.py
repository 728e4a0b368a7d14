"""The text before a function in its task: the imports, helpers and constants that it needs, in an order that runs.

The names that a function reads are followed to the statements that bind them, through the project's own modules. What
remains imports the standard library, and packages that the operator allowed in the sandbox.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from evaluation.effects import Program, is_builtin, names_read
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.find import Function
from evaluation.from_code.source.project import Module, Project
from evaluation.source import bound_names, parse

MAX_CHARS = 16_000
"""Characters of a prompt; a small model reads them in a few seconds."""
FUTURE = "from __future__ import annotations"


def prompt_of(project: Project, function: Function, packages: frozenset[str] = frozenset()) -> str:
    """The prompt: imports, helpers, constants, then the function's decorators, signature and docstring.

    It may import the standard library and `packages`, which the sandbox has.
    Raises ExcludedError where they cannot be taken out of the project, need an installed package, or are too long.
    """
    gathering = _Gathering(project, function, sys.stdlib_module_names | packages)
    gathering.follow(function.module, gathering.names_of(function.module, function.node))
    gathering.follow(function.module, _names_in_signature(function.node))
    head = signature_of(function)
    before = gathering.text()
    prompt = f"{before}\n\n{head}" if before else head
    if len(prompt) > MAX_CHARS:
        raise ExcludedError(f"needs helpers and constants of more than {MAX_CHARS} characters")
    return prompt


def signature_of(function: Function) -> str:
    """Decorators, signature and docstring, as in the file."""
    return "".join(function.module.lines[_first_line(function.node) - 1 : function.solution_line - 1])


def solution_of(function: Function) -> str:
    """The function's body as in the file."""
    text = "".join(function.module.lines[function.solution_line - 1 : function.node.end_lineno])
    return text if text.endswith("\n") else text + "\n"


@dataclass
class _Gathering:
    """The statements gathered so far by module, and the modules that each module `needs`. `origins` says for a name
    who defines it: a module or an import statement."""

    project: Project
    function: Function
    importable: frozenset[str]
    chosen: dict[str, set[int]] = field(default_factory=dict)
    needs: dict[str, dict[str, None]] = field(default_factory=dict)
    imports: dict[str, None] = field(default_factory=dict)
    renames: dict[str, dict[str, None]] = field(default_factory=dict)
    origins: dict[str, tuple[str, str]] = field(default_factory=dict)
    done: set[tuple[str, str]] = field(default_factory=set)
    programs: dict[str, tuple[dict[str, list[int]], dict[str, list[int]]]] = field(default_factory=dict)
    postponed: bool = False

    def follow(self, module: Module, names: set[str]) -> None:
        """Gather what binds these names in the module, and what that needs."""
        for name in sorted(names):
            if (module.name, name) not in self.done:
                self.done.add((module.name, name))
                self._find(module, name)

    def names_of(self, module: Module, node: ast.stmt) -> set[str]:
        """The module's names that a statement needs. Names that occur in annotations only are left out where the
        module does not bind them to something of the standard library."""
        names = names_read(node)
        bare = names_read(_without_annotations(node))
        for name in names - bare:
            if not self._is_simple(module, name):
                self.postponed = True
                names.discard(name)
        self._check_inner_imports(module, node)
        return names

    def text(self) -> str:
        """All gathered statements as source."""
        imports = [FUTURE] if self.postponed or self._has_future() else []
        imports.extend(sorted(self.imports, key=lambda line: (line.startswith("from"), line)))
        text, gap = "\n".join(imports), "\n\n"
        for block, is_definition in self._blocks():
            if text:
                text += "\n\n\n" if is_definition else gap
            text += block
            gap = "\n\n\n" if is_definition else "\n"
        return f"{text}\n" if text else ""

    def _blocks(self) -> Iterator[tuple[str, bool]]:
        """The statements, and whether each is a definition, which blank lines surround."""
        for name in self._order():
            module = self.project.modules[name]
            for index in sorted(self.chosen.get(name, ())):
                statement = module.tree.body[index]
                is_definition = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                yield _text(module, statement), is_definition
            yield from ((rename, False) for rename in self.renames.get(name, ()))

    def _order(self) -> list[str]:
        """The modules, each after those that it needs."""
        found: dict[str, None] = {}

        def visit(name: str, above: frozenset[str]) -> None:
            for other in self.needs.get(name, ()):
                if other not in above:
                    visit(other, above | {other})
            found.setdefault(name)

        visit(self.function.module.name, frozenset({self.function.module.name}))
        return list(found)

    def _has_future(self) -> bool:
        modules = [self.project.modules[name] for name in self._order()]
        return any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__" for m in modules for node in m.tree.body
        )

    def _tables(self, module: Module) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """(statements that bind a name, statements that change its object) of a module."""
        if module.name not in self.programs:
            binds: dict[str, list[int]] = {}
            changes: dict[str, list[int]] = {}
            program = Program(module.tree.body, "")
            for index, node in enumerate(module.tree.body):
                for name in bound_names(node):
                    binds.setdefault(name, []).append(index)
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import):
                    for name in program.effects(node).changes:
                        changes.setdefault(name, []).append(index)
            self.programs[module.name] = binds, changes
        return self.programs[module.name]

    def _is_simple(self, module: Module, name: str) -> bool:
        """Whether a name of an annotation is builtin or imported from the standard library at the top."""
        if is_builtin(name):
            return True
        places = self._tables(module)[0].get(name, [])
        nodes = [module.tree.body[index] for index in places]
        return (
            len(nodes) == 1
            and isinstance(nodes[0], ast.Import | ast.ImportFrom)
            and not self._is_ours(module, nodes[0])
            and _top(nodes[0], name) in self.importable
        )

    def _find(self, module: Module, name: str) -> None:
        binds, changes = self._tables(module)
        places = [*binds.get(name, ()), *changes.get(name, ())]
        if not places:
            if is_builtin(name):
                return
            stars = [n for n in module.tree.body if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"]
            raise ExcludedError(
                "needs a name of a star import" if stars else "needs a name that its module does not define", name
            )
        for index in dict.fromkeys(places):
            self._take(module, index, name)

    def _claim(self, name: str, owner: str, module: Module, node: ast.stmt) -> bool:
        """Note whose a name is. False where another module binds it to the same constant.

        Raises ExcludedError where it binds it to something else.
        """
        text = ast.unparse(node)
        owned = self.origins.setdefault(name, (owner, text))
        if owned[0] == owner:
            return True
        if owned[1] == text and isinstance(node, ast.Assign | ast.AnnAssign):
            return False
        raise ExcludedError("needs two different objects of one name from two modules", f"{name} in {module.name}")

    def _take(self, module: Module, index: int, name: str) -> None:
        node = module.tree.body[index]
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node = next((inner for inner in node.body if name in bound_names(inner)), node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(module, node, name)
            return
        if index in self.chosen.get(module.name, ()) or node is self.function.node:
            return
        if isinstance(node, ast.ClassDef) and not _is_exception(node):
            raise ExcludedError("needs a class of the project, whose objects the sandbox does not pass", name)
        if not self._claim(name, module.name, module, node):
            return
        self.chosen.setdefault(module.name, set()).add(index)
        self.follow(module, self.names_of(module, node))
        for other in bound_names(node):
            self._claim(other, module.name, module, node)

    def _import(self, module: Module, node: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next((a for a in node.names if (a.asname or a.name.partition(".")[0]) == name), None)
        if alias is None or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return
        if not self._is_ours(module, node):
            top = _top(node, name)
            if top not in self.importable:
                raise ExcludedError("needs an installed package", top)
            text = ast.unparse(_one(node, alias))
            self._claim(name, text, module, node)
            self.imports[text] = None
            return
        if isinstance(node, ast.Import):
            raise ExcludedError("uses a module of the project as an object", name)
        source = self.project.modules.get(_absolute(module, node))
        if source is None:
            raise ExcludedError("needs a module of the project that could not be read", _absolute(module, node))
        if f"{source.name}.{alias.name}" in self.project.modules and alias.name not in self._tables(source)[0]:
            raise ExcludedError("uses a module of the project as an object", name)
        self.needs.setdefault(module.name, {})[source.name] = None
        self.follow(source, {alias.name})
        if alias.asname and alias.asname != alias.name:
            self._claim(alias.asname, f"{source.name}.{alias.name}", module, node)
            self.renames.setdefault(source.name, {})[f"{alias.asname} = {alias.name}"] = None

    def _is_ours(self, module: Module, node: ast.Import | ast.ImportFrom) -> bool:
        tops = self.project.top_names()
        if isinstance(node, ast.ImportFrom):
            return node.level > 0 or (node.module or "").partition(".")[0] in tops
        return any(alias.name.partition(".")[0] in tops for alias in node.names)

    def _check_inner_imports(self, module: Module, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                if self._is_ours(module, inner):
                    raise ExcludedError("imports from the project inside a statement or function")
                tops = (
                    [_top(inner, "")]
                    if isinstance(inner, ast.ImportFrom)
                    else [alias.name.partition(".")[0] for alias in inner.names]
                )
                missing = [top for top in tops if top not in self.importable]
                if missing and not isinstance(node, ast.Try):
                    raise ExcludedError("needs an installed package", missing[0])


def _names_in_signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that the signature reads, including names in quoted annotations: an answer may use them."""
    fields = {**dict(ast.iter_fields(function)), "body": [ast.Pass()]}
    names = names_read(ast.FunctionDef(**fields, lineno=1))
    annotations = [node.annotation for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    for annotation in (*annotations, function.returns):
        names |= _quoted_names(annotation)
    return names


def _quoted_names(annotation: ast.AST | None) -> set[str]:
    """The names in the quoted parts of an annotation; the texts of a Literal or Annotated are values."""
    match annotation:
        case None:
            return set()
        case ast.Constant(value=str(text)):
            tree = parse(text)
            return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else set()
        case ast.Subscript(value=ast.Name(id="Literal") | ast.Attribute(attr="Literal")):
            return set()
        case ast.Subscript(
            value=ast.Name(id="Annotated") | ast.Attribute(attr="Annotated"), slice=ast.Tuple(elts=parts)
        ):
            return _quoted_names(parts[0])
    return {name for inner in ast.iter_child_nodes(annotation) for name in _quoted_names(inner)}


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _top(node: ast.Import | ast.ImportFrom, name: str) -> str:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0]
    alias = next((a for a in node.names if (a.asname or a.name.partition(".")[0]) == name), node.names[0])
    return alias.name.partition(".")[0]


def _one(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    return ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)


def _is_exception(node: ast.ClassDef) -> bool:
    """Whether a class looks like an exception, whose objects a test can expect by name."""
    last = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return any(name.endswith(("Error", "Exception", "Warning")) for name in last)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _text(module: Module, node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return "".join(module.lines[_first_line(node) - 1 : node.end_lineno]).rstrip("\n")
    return ast.get_source_segment(module.source, node) or ast.unparse(node)


def _without_annotations(node: ast.stmt) -> ast.stmt:
    copy = ast.parse(ast.unparse(node)).body[0]
    for inner in ast.walk(copy):
        if isinstance(inner, ast.arg):
            inner.annotation = None
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            inner.returns = None
        elif isinstance(inner, ast.AnnAssign):
            inner.annotation = ast.Constant(None)
    return copy
