# SPDX-License-Identifier: Apache-2.0
"""Finds mutants in C++ sources with libclang and writes calls around them. Text is only inserted (and the
operator of a comparison replaced by a comma), on the same line, so that messages name the original lines."""

import re
from dataclasses import dataclass, field

from clang.cindex import CursorKind as K, Index, TypeKind

BINARY = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal",
          "!=": "unequal", "+": "plus", "-": "minus", "*": "times", "/": "over"}
FUNCTIONS = {K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.FUNCTION_TEMPLATE,
             K.CONVERSION_FUNCTION, K.LAMBDA_EXPR}
STATEMENT_PARENTS = {K.COMPOUND_STMT, K.IF_STMT, K.FOR_STMT, K.WHILE_STMT, K.CASE_STMT, K.DEFAULT_STMT,
                     K.CXX_FOR_RANGE_STMT}
SKIPPED = {K.STATIC_ASSERT, K.ENUM_DECL, K.PARM_DECL, K.TEMPLATE_TYPE_PARAMETER,
           K.TEMPLATE_NON_TYPE_PARAMETER, K.DECL_REF_EXPR, K.TYPE_REF, K.TEMPLATE_REF}
NUMBERS = {TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.UCHAR, TypeKind.SHORT, TypeKind.USHORT, TypeKind.INT,
           TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG,
           TypeKind.FLOAT, TypeKind.DOUBLE}
# Only speed depends on these.
POINTLESS_REMOVALS = {"reserve", "shrink_to_fit", "prefetch"}


@dataclass
class Mutant:
    file: str
    line: int
    lines: int  # That it goes on after the first.
    kind: str
    text: str
    opens: list = field(default_factory=list)   # (offset, end offset, text)
    commas: list = field(default_factory=list)  # (offset, length)
    closes: list = field(default_factory=list)  # (offset, begin offset, text)

    def key(self):
        return (self.file, self.opens[0][0] if not self.commas else self.commas[0][0], self.kind)


class Finder:
    """Collects the mutants of all wanted files that a translation unit includes."""

    def __init__(self, root, wanted):
        self.root = root.rstrip("/") + "/"
        self.wanted = set(wanted)  # paths relative to root
        self.text = {}
        self.found = {}

    def parse(self, source, arguments):
        unit = Index.create().parse(source, args=arguments)
        fatal = [d for d in unit.diagnostics if d.severity >= 3]
        if fatal:
            raise RuntimeError(f"{source}: {fatal[0]}")
        for cursor in unit.cursor.get_children():
            if self.file_of(cursor):
                self.visit(cursor, None, False)

    def file_of(self, cursor):
        file = cursor.location.file
        if file is None or not file.name.startswith(self.root):
            return None
        name = file.name[len(self.root):]
        return name if name in self.wanted else None

    def bytes_of(self, name):
        if name not in self.text:
            with open(self.root + name, "rb") as file:
                self.text[name] = file.read()
        return self.text[name]

    def visit(self, cursor, parent, inside):
        kind = cursor.kind
        if kind in SKIPPED:
            return
        name = self.file_of(cursor)
        children = list(cursor.get_children())
        begin, end = cursor.extent.start.offset, cursor.extent.end.offset
        text = self.bytes_of(name)[begin:end].decode() if name else ""
        if kind in FUNCTIONS:
            body = [c for c in children if c.kind == K.COMPOUND_STMT]
            if not body:
                return
            head = text[:body[-1].extent.start.offset - begin]
            if kind != K.LAMBDA_EXPR and re.search(r"\bconst(expr|eval)\b", head):
                return
            for child in children:
                # A constructor's initialisers are code, too; parameters are not.
                if child.kind != K.PARM_DECL and (kind == K.CONSTRUCTOR or child.kind == K.COMPOUND_STMT):
                    self.visit(child, cursor, True)
            return
        if kind == K.VAR_DECL and re.match(r"[^=({]*\bconstexpr\b", text):
            inside = False
        if kind == K.IF_STMT and re.match(r"if\s+constexpr\b", text):
            children = children[1:]
        if kind == K.CASE_STMT:
            children = children[1:]
        if inside and name and end > begin:
            self.consider(cursor, parent, children, name, begin, end, text)
        for child in children:
            # Calls without arguments of their own, `std::get<1>(x)`: template arguments are under
            # references, which are skipped.
            self.visit(child, cursor, inside)

    def add(self, cursor, name, kind, text, opens, commas, closes):
        line = cursor.extent.start.line
        mutant = Mutant(name, line, cursor.extent.end.line - line, kind, " ".join(text.split())[:120], opens, commas, closes)
        self.found.setdefault(mutant.key(), mutant)

    def consider(self, cursor, parent, children, name, begin, end, text):
        kind = cursor.kind
        if kind in (K.BINARY_OPERATOR, K.CALL_EXPR, K.COMPOUND_ASSIGNMENT_OPERATOR):
            self.operator(cursor, children, name, begin, end, text)
        if kind == K.UNARY_OPERATOR and text.startswith("!"):
            self.add(cursor, name, "not", text, [(begin, end, "mutant::flip({id}, ")], [],
                     [(end, begin, ")")])
        if kind in (K.INTEGER_LITERAL, K.FLOATING_LITERAL):
            self.number(cursor, parent, name, begin, end, text)
        if kind == K.CALL_EXPR and parent is not None and parent.kind in STATEMENT_PARENTS and \
                cursor.type.kind == TypeKind.VOID and text.endswith(")") and \
                cursor.spelling not in POINTLESS_REMOVALS:
            self.add(cursor, name, "removed call", text, [(begin, end, "(mutant::on({id}) ? void() : ")], [],
                     [(end, begin, ")")])

    def number(self, cursor, parent, name, begin, end, text):
        before = self.bytes_of(name)[:begin].decode(errors="replace").rstrip()
        line = before[before.rfind("\n") + 1:]
        if not re.fullmatch(r"[0-9][0-9.'eE+-]*[uUlLfF]*", text) or "<=>" in line:
            return
        # `std::array<int, 3> a`: a template argument.
        if parent is not None and parent.kind in (K.VAR_DECL, K.MEMBER_REF_EXPR, K.CALL_EXPR) and \
                before.endswith("<"):
            return
        if parent is not None and parent.kind == K.VAR_DECL and before[-1] not in "=({":
            return
        self.add(cursor, name, "constant", text, [(begin, end, "mutant::one_more({id}, ")], [],
                 [(end, begin, ")")])

    def operator(self, cursor, children, name, begin, end, text):
        source = self.bytes_of(name)
        if cursor.kind == K.CALL_EXPR:
            if not cursor.spelling.startswith("operator") or len(children) != 3:
                return
            ends = sorted([children[0], children[2]], key=lambda c: c.extent.start.offset)
        elif len(children) == 2:
            ends = children
        else:
            return
        left, right = ends
        if left.extent.start.offset != begin or right.extent.end.offset != end:
            return
        a, b = left.extent.end.offset, right.extent.start.offset
        between = source[a:b].decode()
        operator = between.strip()
        at = a + len(between) - len(between.lstrip())
        lines = f"{text}"
        if operator in ("+=", "-=") and self.can_negate(right, left):
            self.add(cursor, name, operator, lines, [(b, end, "mutant::negate({id}, ")], [], [(end, b, ")")])
        elif operator in ("&&", "||"):
            # The outer pair around all, the inner ones around the sides.
            self.add(cursor, name, operator, lines,
                     [(begin, end + 1, "mutant::flip({id}, "), (begin, a, "mutant::flip({id}, "),
                      (b, end, "mutant::flip({id}, ")], [],
                     [(a, begin, ")"), (end, b, ")"), (end, begin - 1, ")")])
        elif operator in BINARY and not source[b:b + 1] == b"{" and self.can_change(operator, left, right):
            self.add(cursor, name, operator, lines, [(begin, end, "mutant::" + BINARY[operator] + "({id}, ")],
                     [(at, len(operator))], [(end, begin, ")")])

    @staticmethod
    def unit(cursor):
        """'number', 'quantity', 'time', or None for what has no arithmetic of its own."""
        canonical = cursor.type.get_canonical()
        if canonical.kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE):
            canonical = canonical.get_pointee().get_canonical()
        if canonical.kind in NUMBERS:
            return "number"
        if "std::chrono::duration<" in canonical.spelling and "time_point" not in canonical.spelling:
            return "time"
        if re.match(r"(const )?gpusim::Quantity<", canonical.spelling):
            return "quantity"
        return None

    def can_negate(self, right, left):
        return self.unit(right) is not None and self.unit(left) is not None

    def can_change(self, operator, left, right):
        if operator in ("<", "<=", ">", ">=", "==", "!="):
            return True
        a, b = self.unit(left), self.unit(right)
        if operator in "+-":
            return a is not None and a == b
        return b == "number" and a is not None and not (a == "quantity" and operator == "/")


def rewritten(source, mutants):
    """The text of a file with `mutants` ({id: Mutant}) in it; its first line, a comment, becomes an include."""
    pieces = []  # (offset, closes before opens, outer before inner, ..., text, replaced length)
    for number, mutant in mutants.items():
        for at, end, text in mutant.opens:
            # Of two around the same text, the one that has a comma in it is the inner one.
            pieces.append((at, 1, -end, bool(mutant.commas), number, text.replace("{id}", str(number)), 0))
        for at, begin, text in mutant.closes:
            pieces.append((at, 0, -begin, False, number, text, 0))
        for at, length in mutant.commas:
            pieces.append((at, 2, 0, False, number, ",", length))
    out, done = [], 0
    for at, *_, text, length in sorted(pieces):
        out.append(source[done:at])
        out.append(text.encode())
        done = at + length
    out.append(source[done:])
    lines = b"".join(out)
    first = lines.index(b"\n")
    return b'#include "tests/mutation/mutant.hpp"' + lines[first:]
