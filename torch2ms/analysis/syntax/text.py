"""The source text of LibCST nodes.

LibCST's own writer records where every node begins and ends, which costs several times the writing. The nodes that make
up most programs are written here, by their layout; all others are left to LibCST.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from torch2ms.analysis.syntax.layouts import LAYOUTS, LED_LAYOUTS, TOKENS

Write = Callable[[Any, CodegenState], None]
EMPTY = cst.Module([])
_Space, _Maybe = cst.SimpleWhitespace, cst.MaybeSentinel  # looked up for every second node
OMITTED = frozenset({"comma", "semicolon"})  # nothing stands there unless something follows, which the list knows
SEPARATED = frozenset({"args", "elements", "names", "slice"})


def code(node: cst.CSTNode, module: cst.Module = EMPTY) -> str:
    """The source text of a node, or of a module, in the style of a module."""
    return "".join(tokens(node, module))


def tokens(node: cst.CSTNode, module: cst.Module = EMPTY) -> list[str]:
    """The same in pieces: every comment is one of them, and begins with a number sign as no other does but text of an
    f-string."""
    state = CodegenState(default_indent=module.default_indent, default_newline=module.default_newline)
    _write(node, state)
    return state.tokens


def _write(node: cst.CSTNode, state: CodegenState) -> None:
    how = _WRITERS.get(node.__class__)
    if how is not None:
        how(node, state)
    else:
        node._codegen(state)


def _by_layout(layout: str) -> Write:
    """Writes nodes whose parts always follow each other; what is left to a default is left to LibCST."""
    literals, names = [""], []  # what stands before each field, and behind the last
    for part in layout.split():
        if part.isidentifier():
            names.append(part)
            literals.append("")
        else:
            literals[-1] = part.strip("'")
    ending = literals.pop()
    fields = attrgetter(names[0], *names)  # one more than needed: of a single name it would give no tuple

    def write(node: cst.CSTNode, state: CodegenState) -> None:
        tokens = state.tokens
        start = len(tokens)
        for literal, name, value in zip(literals, names, fields(node)[1:], strict=True):
            if literal:
                tokens.append(literal)
            kind = value.__class__
            if kind is _Space or kind is str:
                tokens.append(value if kind is str else value.value)
                continue
            how = _WRITERS.get(kind)
            if how is not None:
                how(value, state)
            elif kind is tuple or kind is list:
                if name in SEPARATED:
                    _listed(value, state)
                else:
                    for item in value:
                        _write(item, state)
            elif kind is _Maybe:
                if name not in OMITTED:
                    del tokens[start:]
                    return node._codegen(state)
            elif value is not None:
                value._codegen(state)
        if ending:
            tokens.append(ending)

    return write


def _by_led_layout(layout: str) -> Write:
    """Writes statements that have a line of their own, below the empty lines and comments that lead to it."""
    rest = _by_layout(layout)

    def write(node: Any, state: CodegenState) -> None:
        for line in node.leading_lines:
            _empty_line(line, state)
        state.tokens += state.indent_tokens
        rest(node, state)

    return write


def _listed(items: Sequence[Any], state: CodegenState) -> None:
    """What commas separate; where the last item has none, none is written."""
    last = len(items) - 1
    for number, item in enumerate(items):
        how = _WRITERS.get(item.__class__)
        if how is None or (number != last and item.comma is cst.MaybeSentinel.DEFAULT):
            whitespace = {"default_comma_whitespace": True} if isinstance(item, _ELEMENTS) else {}
            item._codegen(state, default_comma=number != last, **whitespace)
        else:
            how(item, state)


_ELEMENTS = (cst.BaseElement, cst.BaseDictElement)


def _name(node: cst.Name, state: CodegenState) -> None:
    if node.lpar:
        node._codegen(state)
    else:
        state.tokens.append(node.value)


def _whitespace(node: cst.SimpleWhitespace, state: CodegenState) -> None:
    if node.value:
        state.tokens.append(node.value)


def _by_token(token: str) -> Write:
    """Writes operators, commas and dots, with what is around them."""

    def write(node: Any, state: CodegenState) -> None:
        before, after = node.whitespace_before, node.whitespace_after
        if before.__class__ is _Space and after.__class__ is _Space:
            state.tokens.append(before.value + token + after.value)
        else:
            _write(before, state)
            state.tokens.append(token)
            _write(after, state)

    return write


_COMMA, _DOT = _by_token(","), _by_token(".")


def _attribute(node: cst.Attribute, state: CodegenState) -> None:
    for left in node.lpar:
        _write(left, state)
    value = node.value
    if value.__class__ is cst.Name and not value.lpar:
        state.tokens.append(value.value)
    else:
        _write(value, state)
    _DOT(node.dot, state)
    _name(node.attr, state)
    for right in node.rpar:
        _write(right, state)


def _trailing_whitespace(node: cst.TrailingWhitespace, state: CodegenState) -> None:
    if node.whitespace.value:
        state.tokens.append(node.whitespace.value)
    if node.comment is not None:
        state.tokens.append(node.comment.value)
    _newline(node.newline, state)


def _newline(node: cst.Newline, state: CodegenState) -> None:
    state.tokens.append(state.default_newline if node.value is None else node.value)


def _empty_line(node: cst.EmptyLine, state: CodegenState) -> None:
    if node.indent:
        state.tokens += state.indent_tokens
    _write(node.whitespace, state)
    if node.comment is not None:
        _write(node.comment, state)
    _newline(node.newline, state)


def _parenthesized_whitespace(node: cst.ParenthesizedWhitespace, state: CodegenState) -> None:
    _write(node.first_line, state)
    for line in node.empty_lines:
        _empty_line(line, state)
    if node.indent:
        state.tokens += state.indent_tokens
    _write(node.last_line, state)


def _argument(node: cst.Arg, state: CodegenState) -> None:
    if node.star:
        state.tokens.append(node.star)
        _write(node.whitespace_after_star, state)
    if node.keyword is not None:
        _name(node.keyword, state)
        if node.equal is cst.MaybeSentinel.DEFAULT:
            state.tokens.append(" = ")
    if type(node.equal) is cst.AssignEqual:
        _write(node.equal, state)
    _write(node.value, state)
    if type(node.comma) is cst.Comma:
        _COMMA(node.comma, state)
    after = node.whitespace_after_arg
    if after.__class__ is _Space:
        state.tokens.append(after.value)
    else:
        _write(after, state)


_TUPLE = _by_layout("lpar elements rpar")


def _tuple(node: cst.Tuple, state: CodegenState) -> None:
    if len(node.elements) == 1 and node.elements[0].comma is _Maybe.DEFAULT:
        return node._codegen(state)  # its comma is not omitted
    return _TUPLE(node, state)


def _parameters(node: cst.Parameters, state: CodegenState) -> None:
    starred = node.star_arg is not _Maybe.DEFAULT
    star = (node.star_arg,) if starred else ()
    last = (node.star_kwarg,) if node.star_kwarg is not None else ()
    listed = [*node.params, *star, *node.kwonly_params, *last]
    if node.posonly_params or (node.kwonly_params and not starred):
        return node._codegen(state)  # marks stand between them that may not be there yet
    if any(type(param) is cst.Param and param.star is _Maybe.DEFAULT for param in listed):
        return node._codegen(state)
    return _listed(listed, state)


def _parameter(node: cst.Param, state: CodegenState) -> None:
    state.tokens.append(node.star)  # type: ignore[arg-type]
    _write(node.whitespace_after_star, state)
    _name(node.name, state)
    if node.annotation is not None:
        _annotation(node.annotation, ":", state)
    if node.default is not None:
        if type(node.equal) is cst.AssignEqual:
            _write(node.equal, state)
        else:
            state.tokens.append(" = ")
        _write(node.default, state)
    if type(node.comma) is cst.Comma:
        _write(node.comma, state)
    _write(node.whitespace_after_param, state)


def _annotation(node: cst.Annotation, indicator: str, state: CodegenState) -> None:
    if node.whitespace_before_indicator is not _Maybe.DEFAULT:
        _write(node.whitespace_before_indicator, state)
    elif indicator == "->":
        state.tokens.append(" ")
    state.tokens.append(indicator)
    _write(node.whitespace_after_indicator, state)
    _write(node.annotation, state)


def _annotated(node: cst.AnnAssign, state: CodegenState) -> None:
    _write(node.target, state)
    _annotation(node.annotation, ":", state)
    if isinstance(node.equal, cst.AssignEqual):
        _write(node.equal, state)
    elif node.value is not None:
        state.tokens.append(" = ")
    if node.value is not None:
        _write(node.value, state)
    if isinstance(node.semicolon, cst.Semicolon):
        _write(node.semicolon, state)


def _inserted(node: cst.FormattedStringExpression, state: CodegenState) -> None:
    state.tokens.append("{")
    for part in (node.whitespace_before_expression, node.expression, node.equal, node.whitespace_after_expression):
        if part is not None:
            _write(part, state)
    if node.conversion is not None:
        state.tokens.append(f"!{node.conversion}")
    if node.format_spec is not None:
        state.tokens.append(":")
        for spec in node.format_spec:
            _write(spec, state)
    state.tokens.append("}")


def _slice(node: cst.Slice, state: CodegenState) -> None:
    for part in (node.lower, node.first_colon, node.upper):
        if part is not None:
            _write(part, state)
    if type(node.second_colon) is cst.Colon:
        _write(node.second_colon, state)
    elif node.step is not None:
        state.tokens.append(":")
    if node.step is not None:
        _write(node.step, state)


def _import_from(node: cst.ImportFrom, state: CodegenState) -> None:
    state.tokens.append("from")
    _write(node.whitespace_after_from, state)
    for part in (*node.relative, node.module, node.whitespace_before_import):
        if part is not None:
            _write(part, state)
    state.tokens.append("import")
    _write(node.whitespace_after_import, state)
    if node.lpar is not None:
        _write(node.lpar, state)
    if isinstance(node.names, cst.ImportStar):
        _write(node.names, state)
    else:
        _listed(node.names, state)
    if node.rpar is not None:
        _write(node.rpar, state)
    if type(node.semicolon) is cst.Semicolon:
        _write(node.semicolon, state)


def _smalls(node: cst.SimpleStatementLine | cst.SimpleStatementSuite, state: CodegenState) -> None:
    last = len(node.body) - 1
    for number, small in enumerate(node.body):
        if number == last:
            _write(small, state)
        else:
            small._codegen(state, default_semicolon=True)
    if not node.body:
        state.tokens.append("pass")
    _trailing_whitespace(node.trailing_whitespace, state)


def _line(node: cst.SimpleStatementLine, state: CodegenState) -> None:
    for line in node.leading_lines:
        _empty_line(line, state)
    state.tokens += state.indent_tokens
    _smalls(node, state)


def _raise(node: cst.Raise, state: CodegenState) -> None:
    if node.cause is not None or node.whitespace_after_raise is _Maybe.DEFAULT:
        return node._codegen(state)
    state.tokens.append("raise")
    for part in (node.whitespace_after_raise, node.exc):
        if part is not None:
            _write(part, state)
    if type(node.semicolon) is cst.Semicolon:
        _write(node.semicolon, state)


def _assert(node: cst.Assert, state: CodegenState) -> None:
    if node.msg is not None and type(node.comma) is not cst.Comma:
        return node._codegen(state)
    state.tokens.append("assert")
    for part in (node.whitespace_after_assert, node.test, node.comma, node.msg):
        if part is not None and part is not _Maybe.DEFAULT:
            _write(part, state)
    if type(node.semicolon) is cst.Semicolon:
        _write(node.semicolon, state)


def _with(node: cst.With, state: CodegenState) -> None:
    if len(node.items) != 1 or type(node.lpar) is cst.LeftParen or type(node.rpar) is cst.RightParen:
        return node._codegen(state)
    (item,) = node.items
    if type(item.comma) is cst.Comma:
        return node._codegen(state)
    for line in node.leading_lines:
        _empty_line(line, state)
    state.tokens += state.indent_tokens
    if node.asynchronous is not None:
        _write(node.asynchronous, state)
    state.tokens.append("with")
    for part in (node.whitespace_after_with, item.item, item.asname, node.whitespace_before_colon):
        if part is not None:
            _write(part, state)
    state.tokens.append(":")
    _write(node.body, state)


def _suite(node: cst.SimpleStatementSuite, state: CodegenState) -> None:
    _write(node.leading_whitespace, state)
    _smalls(node, state)


def _block(node: cst.IndentedBlock, state: CodegenState) -> None:
    if not node.body:
        return node._codegen(state)
    _write(node.header, state)
    state.indent_tokens.append(state.default_indent if node.indent is None else node.indent)
    for statement in node.body:
        _write(statement, state)
    for line in node.footer:
        _empty_line(line, state)
    state.indent_tokens.pop()


def _if(node: cst.If, state: CodegenState, word: str = "if") -> None:
    for line in node.leading_lines:
        _empty_line(line, state)
    state.tokens += state.indent_tokens
    state.tokens.append(word)
    for part in (node.whitespace_before_test, node.test, node.whitespace_after_test):
        _write(part, state)
    state.tokens.append(":")
    _write(node.body, state)
    if type(node.orelse) is cst.If:
        _if(node.orelse, state, "elif")
    elif node.orelse is not None:
        _write(node.orelse, state)


def _function(node: cst.FunctionDef, state: CodegenState) -> None:
    for above in (*node.leading_lines, *node.decorators, *node.lines_after_decorators):
        _write(above, state)
    state.tokens += state.indent_tokens
    if node.asynchronous is not None:
        _write(node.asynchronous, state)
    state.tokens.append("def")
    for part in (node.whitespace_after_def, node.name, node.whitespace_after_name, node.type_parameters):
        if part is not None:
            _write(part, state)
    _write(node.whitespace_after_type_parameters, state)
    state.tokens.append("(")
    _write(node.whitespace_before_params, state)
    _write(node.params, state)
    state.tokens.append(")")
    if node.returns is not None:
        _annotation(node.returns, "->", state)
    _write(node.whitespace_before_colon, state)
    state.tokens.append(":")
    _write(node.body, state)


def _class(node: cst.ClassDef, state: CodegenState) -> None:
    for above in (*node.leading_lines, *node.decorators, *node.lines_after_decorators):
        _write(above, state)
    state.tokens += state.indent_tokens
    state.tokens.append("class")
    for part in (node.whitespace_after_class, node.name, node.whitespace_after_name, node.type_parameters):
        if part is not None:
            _write(part, state)
    _write(node.whitespace_after_type_parameters, state)
    given = [*node.bases, *node.keywords]
    brackets = (node.lpar, "(") if given else (node.lpar, "")
    _bracket(*brackets, state)
    _listed(given, state)
    _bracket(node.rpar, ")" if given else "", state)
    _write(node.whitespace_before_colon, state)
    state.tokens.append(":")
    _write(node.body, state)


def _bracket(node: cst.CSTNode | cst.MaybeSentinel, default: str, state: CodegenState) -> None:
    if isinstance(node, cst.MaybeSentinel):
        state.tokens.append(default)
    else:
        _write(node, state)


def _module(node: cst.Module, state: CodegenState) -> None:
    for part in (*node.header, *node.body, *node.footer):
        _write(part, state)
    if not node.has_trailing_newline:
        state.pop_trailing_newline()
    elif not state.tokens:
        state.tokens.append(state.default_newline)


_WRITERS: dict[type, Write] = {
    **{kind: _by_layout(layout) for kind, layout in LAYOUTS.items()},
    **{kind: _by_token(token) for kind, token in TOKENS.items()},
    **{kind: _by_led_layout(layout) for kind, layout in LED_LAYOUTS.items()},
    cst.Name: _name,
    cst.SimpleWhitespace: _whitespace,
    cst.Newline: _newline,
    cst.Attribute: _attribute,
    cst.TrailingWhitespace: _trailing_whitespace,
    cst.EmptyLine: _empty_line,
    cst.ParenthesizedWhitespace: _parenthesized_whitespace,
    cst.Arg: _argument,
    cst.Tuple: _tuple,
    cst.Parameters: _parameters,
    cst.Param: _parameter,
    cst.SimpleStatementLine: _line,
    cst.SimpleStatementSuite: _suite,
    cst.IndentedBlock: _block,
    cst.AnnAssign: _annotated,
    cst.FormattedStringExpression: _inserted,
    cst.Slice: _slice,
    cst.ImportFrom: _import_from,
    cst.If: _if,
    cst.Raise: _raise,
    cst.Assert: _assert,
    cst.With: _with,
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.Module: _module,
}
