"""The loops of a kernel over its rows, as text: made when all of them are known."""

from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
from torch._inductor.utils import sympy_product

from ....kernels.layout import WORKGROUP
from ....plan import caps
from .pieces import Segment
from .values import type_of

MARK = "//loop "  # where a loop comes in a kernel's body, with its number


class Loops:
    """What a kernel does to assemble its body. It has `segments`; `keeping` threads to a row that keep their elements
    from loop to loop, in so many `turns`; `scans`; the `types` of its variables."""

    def assembled(self) -> str:
        """The body with its loops."""
        kept: set[str] = set()
        loops = [
            (self._kept(n, kept) if self.keeping else self._looped(segment)).getvalue()
            for n, segment in enumerate(self.segments)
        ]
        lines = [f"var kept_{v}: array<{self.types[v]}, {self.turns * 4}>;" for v in sorted(kept)]
        lines += self._ahead() if self.keeping else []
        for line in self.body.getvalue().split("\n"):
            mark = line.strip()
            lines.append(loops[int(mark.removeprefix(MARK))].rstrip() if mark.startswith(MARK) else line)
        return "\n".join(lines)

    def _looped(self, segment: Segment) -> IndentedBuffer:
        """The text of a loop that keeps nothing. A thread has the same elements in all loops, for one may read what
        another has stored; with scans they lie side by side."""
        body, fours = IndentedBuffer(), any(s.loads or s.stores for s in self.segments)
        width = 4 if fours else 1
        start, end, step = f"lane * {width}", "row_end", f"LANES * {width}"
        if self.scans:
            start, end, step = "lane * stretch", "min(row_end, (lane + 1) * stretch)", f"{width}"
        body.writelines(["{", *segment.starts])
        body.writeline(f"for (var r0_first = {start}; r0_first < {end}; r0_first += {step}) {{")
        with body.indent():
            if fours:
                self._lines4(body, segment, [], [])
            else:
                body.writeline("let r0_index = r0_first;")
                body.splice(segment.inner)
        body.writeline("}}")
        return body

    def _kept(self, number: int, kept: set[str]) -> IndentedBuffer:
        """The text of a loop whose values others need too."""
        segment, body = self.segments[number], IndentedBuffer()
        before = set().union(*(s.defined() for s in self.segments[:number])) & segment.used()
        after = segment.defined() & set().union(*(s.used() for s in self.segments[number + 1 :]))
        kept |= after
        taken = [f"let {v} = kept_{v}[turn * 4 + lane4];" for v in sorted(before)]
        given = [f"kept_{v}[turn * 4 + lane4] = {v};" for v in sorted(after)]
        sure = self._whole_rows()  # without branches, reads of all turns are on their way at the same time
        for turn in range(self.turns):
            body.writelines(["{", f"const turn = {turn};", "let r0_first = (turn * LANES + lane) * 4;"])
            body.writeline("{" if sure else "if (r0_first < row_end) {")
            with body.indent():
                self._lines4(body, segment, taken, given, f"_{turn}" if self._early(number) else "")
            body.writeline("}}")
        return body

    def _early(self, number: int) -> bool:
        """Whether a later loop's loads, which are many, are on their way before the first one's sums are known."""
        segment = self.segments[number]
        return number > 0 and not segment.stores and self._whole_rows()

    def _ahead(self) -> list[str]:
        """What is loaded before all loops."""
        return [
            f"let {four.name}_{turn} = {four.loaded(f'({turn} * LANES + lane) * 4')};"
            for number, segment in enumerate(self.segments) if self._early(number)
            for turn in range(self.turns)
            for four in segment.loads
        ]  # fmt: skip

    def _whole_rows(self) -> bool:
        """Whether every thread of every workgroup has as many elements."""
        length, lanes = int(self.root().numel), self.keeping
        rows = sympy_product([t.numel for t in self.range_trees if not t.is_reduction])
        beside = WORKGROUP[caps().kind] // lanes
        return bool(length == self.turns * lanes * 4 and (beside == 1 or rows % beside == 0))

    def _lines4(
        self, body: IndentedBuffer, segment: Segment, taken: list[str], given: list[str], early: str = ""
    ) -> None:
        """What a loop does four times; `early` ends the names of its loads that have been made."""
        for four in segment.loads:
            made = f"{four.name}{early}" if early else four.loaded("r0_first")
            body.writeline(f"let {four.name} = {made};")
        for four in segment.stores:
            body.writeline(DeferredLine(four.buffer, f"var {four.name}: vec4<{type_of(four.dtype)}>;"))
        for lane in range(4):  # written out: drivers keep arrays and vectors in memory where a variable picks elements
            body.writeline("{")
            with body.indent():
                body.writelines([f"const lane4 = {lane};", "let r0_index = r0_first + lane4;", *taken])
                body.splice(segment.inner)
                body.writelines(given)
            body.writeline("}")
        for four in segment.stores:
            line = f"write4_{four.operand}({four.base} + r0_first, {four.name}, 2147483647);"
            body.writeline(DeferredLine(four.buffer, line))
