"""Indices and sizes as WGSL: whole numbers are i32."""

import sympy
from torch.utils._sympy.printers import ExprPrinter

_MOST = (1 << 31) - 1


class Printer(ExprPrinter):
    """Sympy's expressions as WGSL text."""

    def _print_Integer(self, expr: sympy.Expr) -> str:
        if abs(int(expr)) > _MOST:
            raise NotImplementedError(f"webgpu: an index of {expr}")
        return str(int(expr))

    def _print_Float(self, expr: sympy.Expr) -> str:
        text = repr(float(expr))
        return text if "." in text or "e" in text else f"{text}.0"

    def _call(self, name: str, *args) -> str:
        return f"{name}({', '.join(self.doprint(a) for a in args)})"

    def _pair(self, a, b, plain: str, function: str) -> str:
        """Operators for what is never negative, functions that round down for the rest."""
        if a.is_nonnegative and b.is_positive:
            return f"(({self.doprint(a)}) {plain} ({self.doprint(b)}))"
        return self._call(function, a, b)

    def _print_FloorDiv(self, expr: sympy.Expr) -> str:
        return self._pair(*expr.args, "/", "i32_div_floor")

    def _print_Mod(self, expr: sympy.Expr) -> str:
        return self._pair(*expr.args, "%", "i32_remainder")

    _print_PythonMod = _print_Mod

    def _print_ModularIndexing(self, expr: sympy.Expr) -> str:
        x, divisor, modulus = expr.args
        if x.is_nonnegative and divisor.is_positive and modulus.is_positive:
            quotient = f"({self.doprint(x)})" + ("" if divisor == 1 else f" / ({self.doprint(divisor)})")
            return f"(({quotient}) % ({self.doprint(modulus)}))"
        quotient = self.doprint(x) if divisor == 1 else self._call("i32_div_floor", x, divisor)
        return f"i32_remainder({quotient}, {self.doprint(modulus)})"

    def _many(self, name: str, args) -> str:
        texts = [self.doprint(a) for a in args]
        found = texts[0]
        for text in texts[1:]:
            found = f"{name}({found}, {text})"
        return found

    def _print_Min(self, expr: sympy.Expr) -> str:
        return self._many("min", expr.args)

    def _print_Max(self, expr: sympy.Expr) -> str:
        return self._many("max", expr.args)

    def _print_Abs(self, expr: sympy.Expr) -> str:
        return self._call("abs", *expr.args)

    def _print_Where(self, expr: sympy.Expr) -> str:
        test, yes, no = expr.args
        return self._call("select", no, yes, test)

    def _print_Relational(self, expr: sympy.Expr) -> str:
        a, b = expr.args
        return f"(({self.doprint(a)}) {expr.rel_op} ({self.doprint(b)}))"

    def _print_And(self, expr: sympy.Expr) -> str:
        return "(" + " && ".join(self.doprint(a) for a in expr.args) + ")"

    def _print_Or(self, expr: sympy.Expr) -> str:
        return "(" + " || ".join(self.doprint(a) for a in expr.args) + ")"

    def _print_Not(self, expr: sympy.Expr) -> str:
        return f"(!{self.doprint(expr.args[0])})"

    def _print_ToFloat(self, expr: sympy.Expr) -> str:
        return self._call("f32", *expr.args)

    def _print_IntTrueDiv(self, expr: sympy.Expr) -> str:
        a, b = (self._call("f32", x) for x in expr.args)
        return f"({a} / {b})"

    _print_FloatTrueDiv = _print_IntTrueDiv

    def _print_FloatPow(self, expr: sympy.Expr) -> str:
        a, b = (self._call("f32", x) for x in expr.args)
        return f"f32_pow({a}, {b})"

    def _print_FloorToInt(self, expr: sympy.Expr) -> str:
        return f"i32(floor(f32({self.doprint(expr.args[0])})))"

    _print_floor = _print_FloorToInt

    def _print_CeilToInt(self, expr: sympy.Expr) -> str:
        return f"i32(ceil(f32({self.doprint(expr.args[0])})))"

    _print_ceiling = _print_CeilToInt

    def _print_TruncToInt(self, expr: sympy.Expr) -> str:
        return f"i32(trunc(f32({self.doprint(expr.args[0])})))"

    def _print_RoundToInt(self, expr: sympy.Expr) -> str:
        return f"i32(round(f32({self.doprint(expr.args[0])})))"

    def _print_PowByNatural(self, expr: sympy.Expr) -> str:
        return self._call("i32_pow", *expr.args)


text = Printer().doprint
