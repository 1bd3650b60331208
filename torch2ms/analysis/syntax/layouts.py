"""The layouts of LibCST nodes: what stands in their text, in order. `text` writes by them."""

from __future__ import annotations

import libcst as cst

# fields in the order in which they are written; what stands in quotes is written as it is
LAYOUTS = {
    cst.Comment: "value",
    cst.LeftParen: "'(' whitespace_after",
    cst.RightParen: "whitespace_before ')'",
    cst.LeftSquareBracket: "'[' whitespace_after",
    cst.RightSquareBracket: "whitespace_before ']'",
    cst.LeftCurlyBrace: "'{' whitespace_after",
    cst.RightCurlyBrace: "whitespace_before '}'",
    cst.Integer: "lpar value rpar",
    cst.Float: "lpar value rpar",
    cst.SimpleString: "lpar value rpar",
    cst.FormattedStringText: "value",
    cst.FormattedString: "lpar start parts end rpar",
    cst.ConcatenatedString: "lpar left whitespace_between right rpar",
    cst.ComparisonTarget: "operator comparator",
    cst.Comparison: "lpar left comparisons rpar",
    cst.Minus: "'-' whitespace_after",
    cst.Not: "'not' whitespace_after",
    cst.UnaryOperation: "lpar operator expression rpar",
    cst.BinaryOperation: "lpar left operator right rpar",
    cst.BooleanOperation: "lpar left operator right rpar",
    cst.Index: "star whitespace_after_star value",
    cst.SubscriptElement: "slice comma",
    cst.Call: "lpar func whitespace_after_func '(' whitespace_before_args args ')' rpar",
    cst.Subscript: "lpar value whitespace_after_value lbracket slice rbracket rpar",
    cst.List: "lpar lbracket elements rbracket rpar",
    cst.Set: "lpar lbrace elements rbrace rpar",
    cst.Dict: "lpar lbrace elements rbrace rpar",
    cst.ParamStar: "'*' comma",
    cst.Element: "value comma",
    cst.DictElement: "key whitespace_before_colon ':' whitespace_after_colon value comma",
    cst.IfExp: "lpar body whitespace_before_if 'if' whitespace_after_if test "
    "whitespace_before_else 'else' whitespace_after_else orelse rpar",
    cst.CompFor: "whitespace_before asynchronous 'for' whitespace_after_for target "
    "whitespace_before_in 'in' whitespace_after_in iter ifs inner_for_in",
    cst.CompIf: "whitespace_before 'if' whitespace_before_test test",
    cst.GeneratorExp: "lpar elt for_in rpar",
    cst.ListComp: "lpar lbracket elt for_in rbracket rpar",
    cst.Import: "'import' whitespace_after_import names semicolon",
    cst.ImportAlias: "name asname comma",
    cst.Pass: "'pass' semicolon",
    cst.Break: "'break' semicolon",
    cst.Continue: "'continue' semicolon",
    cst.Return: "'return' whitespace_after_return value semicolon",
    cst.Expr: "value semicolon",
    cst.AssignTarget: "target whitespace_before_equal '=' whitespace_after_equal",
    cst.Assign: "targets value semicolon",
    cst.AugAssign: "target operator value semicolon",
    cst.AsName: "whitespace_before_as 'as' whitespace_after_as name",
    cst.NotIn: "whitespace_before 'not' whitespace_between 'in' whitespace_after",
    cst.IsNot: "whitespace_before 'is' whitespace_between 'not' whitespace_after",
}
TOKENS = {
    cst.Dot: ".", cst.Colon: ":", cst.AssignEqual: "=", cst.Comma: ",", cst.Semicolon: ";",
    cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/", cst.FloorDivide: "//", cst.Modulo: "%",
    cst.Power: "**", cst.MatrixMultiply: "@", cst.BitOr: "|", cst.And: "and", cst.Or: "or", cst.In: "in", cst.Is: "is",
    cst.LessThan: "<", cst.GreaterThan: ">", cst.Equal: "==", cst.LessThanEqual: "<=", cst.GreaterThanEqual: ">=",
    cst.AddAssign: "+=", cst.SubtractAssign: "-=", cst.MultiplyAssign: "*=", cst.DivideAssign: "/=",
}  # fmt: skip
LED_LAYOUTS = {
    cst.Decorator: "'@' whitespace_after_at decorator trailing_whitespace",
    cst.For: "asynchronous 'for' whitespace_after_for target "
    "whitespace_before_in 'in' whitespace_after_in iter whitespace_before_colon ':' body orelse",
    cst.While: "'while' whitespace_after_while test whitespace_before_colon ':' body orelse",
    cst.Else: "'else' whitespace_before_colon ':' body",
    cst.Try: "'try' whitespace_before_colon ':' body handlers orelse finalbody",
    cst.ExceptHandler: "'except' whitespace_after_except type name whitespace_before_colon ':' body",
    cst.Finally: "'finally' whitespace_before_colon ':' body",
}
