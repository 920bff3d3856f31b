"""A kernel's text, while Inductor walks the nodes that it is made of.

Elementwise work is text for one `xindex`; a reduction is loops over `r0_index` with what comes between them. Loads and
stores whose elements follow one another are done four at a time: they become a line before or after the four.
"""

import re
from collections import defaultdict
from contextlib import contextmanager
from itertools import count

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable, DeferredLine, IndentedBuffer, SizeArg, TensorArg
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, free_symbol_is_type

from .... import tensor as T
from ....kernels.compiled.access import FOURS, Operand
from ....kernels.compiled.program import TILE, Source, lanes_kept, longest_kept
from ....kernels.text.expression import literal
from ....plan import caps
from . import draws, printer, reductions, scans
from .loops import MARK, Loops
from .pieces import Drawn, Four, Segment, reads_along, walked_once
from .values import Values, as_carrier, carrier_of, computed, named, type_of

_NAMES = re.compile(r"[A-Za-z_]\w*")
_OF_ELEMENTS = ("r0_", "four", "lane4")  # how names begin that differ among the elements of a row
_REST = (
    "loads",
    "stores",
    "fours",
    "whole",
    "guarded",
    "asserted",
    "reduction",
    "length",
    "along",
    "loops",
    "joins",
    "scans",
    "kept",
    "tile",
)


class Kernel(Loops, SIMDKernel):
    overrides = Values
    newvar_prefix = "let "
    suffix = ";"
    kexpr = staticmethod(printer.text)
    sexpr = kexpr
    pexpr = kexpr

    def __init__(self, tiling, **kwargs):
        super().__init__(tiling, **kwargs)
        if self.features.select_index_dtype() != torch.int32:
            raise NotImplementedError("webgpu: a kernel over more elements than an i32 counts")
        self.helpers: dict[str, str] = {}  # functions of the text, by name
        self.zeros: dict[str, bool] = {}  # constants that are zero, and whether they are negative
        self.negated: dict[str, str] = {}  # what a value is the negative of
        self.joins: dict[str, tuple] = {}  # states that a row's threads join, by name
        self.scans: dict[str, tuple] = {}  # and those that are joined in their order
        self.scanned: dict[tuple, tuple] = {}  # results of the loop's scans
        self.starts: list[str] = []  # what comes before the loop for them
        self.gathers = IndentedBuffer()  # what an element adds to accumulators
        self.uses: dict[str, set[str]] = {}  # of each operand
        self.loop_indexing = IndentedBuffer()
        self.post_loop = IndentedBuffer()
        self.outside: set = set()  # variables that outlive a loop
        self.same: set[str] = set()  # and their names
        self.masks = 0
        self.guarded = False
        self.asserted: list[str] = []  # what is said where an assertion does not hold
        self.loads4: dict[tuple, Four] = {}
        self.stores4: dict[tuple, Four] = {}
        self.numbers = count()
        self.tile: tuple[int, int, int] | None = None
        self.along = self.across = 0  # elements that follow one another along a reduction, or across rows
        self.accumulators = 0
        self.fours = self._fours()
        self.types: dict[str, str] = {}  # of variables, in the text
        self.rounded: dict[torch.dtype, set[str]] = defaultdict(set)  # variables that such a dtype holds exactly
        self.segments: list[Segment] = []
        self.streams: dict[str, tuple[str, int]] = {}  # variables that stand for a place in a stream of random words
        self.indices: dict[str, sympy.Expr] = {}  # what variables that are indices were made of
        self.keeping = self._keeps()  # so many threads to a row
        self.turns = -(-int(self.root().numel) // (4 * self.keeping)) if self.keeping else 0

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return "i32"

    # -- what goes where

    @contextmanager
    def inside_mask(self):
        self.masks += 1
        try:
            yield
        finally:
            self.masks -= 1

    def create_cse_var(self, *args, **kwargs) -> CSEVariable:
        var = super().create_cse_var(*args, **kwargs)
        if var.dtype in T.STORED:
            self.types[var.name] = type_of(var.dtype)
        if not self.inside_reduction and not self.masks:
            self._outlives(var)
        return var

    def computed(self, text: str, dtype: torch.dtype, **rest) -> CSEVariable:
        """A variable that has this value: before the loop, where it is the same for all elements of a row."""
        used = _NAMES.findall(text)
        same = all(not n.startswith(_OF_ELEMENTS) and (n[:3] != "tmp" or n in self.same) for n in used)
        if not (self.inside_reduction and same and not self.masks):
            return self.cse.generate(self.compute, text, dtype=dtype, **rest)
        var = self.cse.generate(self.body, text, dtype=dtype, **rest)
        self._outlives(var)
        return var

    def _outlives(self, var: CSEVariable) -> None:
        self.outside.add(var)
        self.same.add(var.name)

    @contextmanager
    def disable_reduction(self):
        """Between loops: what was found for an element of a row is not there."""
        with super().disable_reduction():
            found = self.cse
            self.cse = found.clone() if self.keeping else found
            try:
                yield
            finally:
                self.cse = found

    def codegen_iteration_ranges_entry(self, entry) -> None:
        line = f"let {entry.name} = {printer.text(self.rename_indexing(entry.expr))};"
        (self.loop_indexing if entry.is_reduction else self.indexing_code).writeline(line)

    def root(self):
        """The range whose elements are taken four at a time: a reduction's own, or the innermost one."""
        reduced = self.features.is_reduction()
        return [t for t in self.range_trees if t.is_reduction == reduced][-1]

    def _fours(self) -> bool:
        root = self.root()
        return not self.inside_reduction or V.graph.sizevars.statically_known_multiple_of(root.numel, 4)

    def _keeps(self) -> int:
        """How many threads keep what they have of a row from loop to loop, rather than compute it again; or 0."""
        root, nodes = self.root(), self.features.scheduler_nodes()
        if caps().kind != "gpu" or not self.inside_reduction or not self.fours or not self.numbered(root):
            return 0
        if any(isinstance(getattr(n.node, "data", None), ir.Scan) for n in nodes):
            return 0
        length, once = int(root.numel), walked_once(nodes)
        if length > longest_kept(once, caps()) or not any(map(reads_along, nodes)):
            return 0
        rows = sympy_product([t.numel for t in self.range_trees if not t.is_reduction])
        return lanes_kept(length, V.graph.sizevars.optimization_hint(rows, fallback=1), once, caps())

    def _base(self, index: sympy.Expr) -> sympy.Expr | None:
        """The place of an index's first element, if the four elements of a turn follow one another from a multiple of
        four on."""
        root = self.root()
        own = [s for s in index.free_symbols if (e := self.range_tree_nodes.get(s)) is not None and e.root is root]
        if not self.fours or len(own) != 1 or self.range_tree_nodes[own[0]].expr != root.index_sym():
            return None
        base = sympy.expand(index - own[0])
        if own[0] in base.free_symbols or free_symbol_is_type(base, SymT.TMP):
            return None
        terms = base.args if isinstance(base, sympy.Add) else (base,)
        return base if all(V.graph.sizevars.statically_known_multiple_of(t, 4) for t in terms) else None

    def _by_fours(self, index: sympy.Expr, dtype: torch.dtype) -> sympy.Expr | None:
        if self.masks or carrier_of(dtype) not in FOURS or (self.features.is_reduction() and not self.inside_reduction):
            return None
        return self._base(index)

    def _count_strides(self, index: sympy.Expr) -> None:
        """Whether neighbours of a reduction are neighbours in memory along its rows or across them."""
        strides = self.get_strides_of_load(index)
        steps = {}
        for symbol, stride in strides.items():
            steps[str(symbol)[0]] = V.graph.sizevars.statically_known_equals(stride, 1)
        if steps.get("r"):
            self.along += 1
        elif steps.get("x"):
            self.across += 1

    def _across(self, index: sympy.Expr) -> tuple[int, int, int] | None:
        """Where a load runs along another dimension than the elements of a turn: the sizes of the innermost dimension,
        of one step along that other one, and of that one."""
        steps = {self.range_tree_nodes[s]: index.coeff(s) for s in index.free_symbols if s in self.range_tree_nodes}
        inner = [e for e, step in steps.items() if e.divisor == 1 and step not in (0, 1)]
        other = [e for e, step in steps.items() if step == 1 and e.divisor != 1]
        if caps().kind != "gpu" or not inner or not other:
            return None
        found = (inner[0].length, other[0].divisor, other[0].length)
        if not all(isinstance(n, (int, sympy.Integer)) for n in found) or found[0] % TILE or found[2] % TILE:
            return None
        return tuple(int(n) for n in found) if found[1] % found[0] == 0 else None

    def _use(self, operand: str, how: str) -> None:
        self.uses.setdefault(operand, set()).add(how)

    # -- reading and writing

    @staticmethod
    def _of_host(name: str) -> bool:
        """Whether a buffer is a number in a tensor of the CPU, which is brought to the device before each call."""
        buffer = V.graph.graph_inputs.get(name)
        return buffer is not None and buffer.get_device().type == "cpu"

    def _dtype(self, name: str) -> torch.dtype:
        dtype = V.graph.get_dtype(name)
        return torch.float32 if dtype is torch.float64 and self._of_host(name) else dtype

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        operand, index = self.args.input(name), self.prepare_indexing(index)
        dtype = self._dtype(name)
        indirect = free_symbol_is_type(index, SymT.TMP)
        looped = any((e := self.range_tree_nodes.get(s)) is not None and e.is_reduction for s in index.free_symbols)
        if self.inside_reduction and not indirect:
            self._count_strides(index)
        base = None if indirect else self._by_fours(index, dtype)
        if base is None and not indirect and not self.features.is_reduction():
            self.tile = self.tile or self._across(index)
        if base is not None:
            var = self._load4(name, operand, base, dtype)
            self.rounded[dtype].add(var.name)
            return var
        self._use(operand, "r")
        line = f"read_{operand}({printer.text(self.rename_indexing(index))})"
        apart = self.inside_reduction and not looped and not indirect and not self.masks
        var = self.cse.generate(self.body if apart else self.loads, line, dtype=computed(dtype))
        self.rounded[dtype].add(var.name)
        if apart:
            self._outlives(var)
        return var

    def _load4(self, name: str, operand: str, base: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        text = printer.text(self.rename_indexing(base))
        four = self.loads4.get((operand, text))
        if four is None:
            four = Four(operand, text, f"four{next(self.numbers)}", dtype, name)
            self.loads4[operand, text] = four
        self._use(operand, "R")
        return self.cse.generate(self.loads, f"{four.name}[lane4]", dtype=computed(dtype))

    def stream(self, name: str, place: int) -> CSEVariable:
        """Stands for a buffer that has a stream's key and place, and for a place so many counters further on."""
        found = named(f"{place}", torch.int32)
        self.streams[found.name] = (name, place)
        return found

    def random(self, kind: str, stream: CSEVariable, index: CSEVariable) -> CSEVariable:
        """The random number of an element: see `draws`."""
        name, place = self.streams[stream.name]
        operand = self.args.input(name)
        self._use(operand, "r")
        function = draws.emit(self, kind, operand)
        expr = self.indices.get(index.name)
        base = None if expr is None else self._by_fours(expr, torch.float32)
        if base is None:
            return named(f"{function}({place}u + u32({index}) / 4u)[u32({index}) % 4u]", torch.float32)
        text = printer.text(self.rename_indexing(base))
        four = self.loads4.get((function, place, text))
        if four is None:
            four = Drawn(function, place, text, f"four{next(self.numbers)}", name)
            self.loads4[function, place, text] = four
        return self.cse.generate(self.loads, f"{four.name}[lane4]", dtype=torch.float32)

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode=None) -> None:
        operand, index = self.args.output(name), self.prepare_indexing(index)
        dtype = V.graph.get_dtype(name)
        text = as_carrier(value, carrier_of(dtype)) if value is not None else "true"  # of an assertion
        place = printer.text(self.rename_indexing(index))
        if mode == "atomic_add":
            if dtype is torch.float64:
                raise NotImplementedError("webgpu: no atomic sum of float64")
            self._use(operand, "a")
            self._put(name, f"add_{operand}({place}, {text});")
            return
        if mode is not None:
            raise NotImplementedError(f"webgpu: a store that is {mode}")
        base = self._by_fours(index, dtype)
        if base is not None and self._ends_whole(name):
            self._store4(name, operand, base, dtype, text)
            return
        self._use(operand, "w")
        self._put(name, f"write_{operand}({place}, {text});")

    def _ends_whole(self, name: str) -> bool:
        """Whether the last four elements that are stored are no one else's: kernels have multiples of four, or a buffer
        is made by this one and ends with them."""
        total, sizes = sympy_product([t.numel for t in self.range_trees]), V.graph.sizevars
        if sizes.statically_known_multiple_of(total, 4):
            return True
        layout = V.graph.get_buffer(name).get_output_spec()
        owns = not isinstance(layout, (ir.MutationLayoutSHOULDREMOVE, ir.NonOwningLayout))
        return owns and sizes.statically_known_equals(total, V.graph.get_numel(name))

    def _store4(self, name: str, operand: str, base: sympy.Expr, dtype: torch.dtype, text: str) -> None:
        place = printer.text(self.rename_indexing(base))
        four = self.stores4.get((operand, place))
        if four is None:
            four = Four(operand, place, f"result{next(self.numbers)}", dtype, name)
            self.stores4[operand, place] = four
        self._use(operand, "W")
        self.stores.writeline(DeferredLine(name, f"{four.name}[lane4] = {text};"))

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        """What a loop has gathered is there after it."""
        stores, inside = self.stores, self.inside_reduction
        self.stores, self.inside_reduction = self.post_loop, False
        try:
            self.store(name, index, value)
        finally:
            self.stores, self.inside_reduction = stores, inside

    def _put(self, name: str, line: str) -> None:
        """One element's store: outside of loops the first thread of a row does it."""
        if self.features.is_reduction() and not self.inside_reduction:
            line = f"if (live && lane == 0) {{ {line} }}"
        self.stores.writeline(DeferredLine(name, line))

    def checked_index(self, var: CSEVariable, size) -> CSEVariable:
        """An index that was read, within bounds."""
        self.guarded = True
        size = printer.text(self.rename_indexing(sympy.sympify(size)))
        own = carrier_of(var.dtype)
        if self.features.is_reduction() and not self.inside_reduction:  # threads past the last row have no index
            var = named(f"select({literal(0, own)}, {var}, live)", var.dtype)
        low, high = {
            "n64": (f"n64_lo({var})", f"n64_hi({var})"),
            "i64": (f"{var}.x", f"{var}.y"),
        }.get(own, (f"bitcast<u32>({var})", f"select(0u, 0xffffffffu, {var} < 0)"))
        return named(f"i32(checked({low}, {high}, u32({size}), p.site))", torch.int32)

    def check_bounds(self, expr, size, lower: bool, upper: bool) -> None:
        """Indices are checked as they are made."""

    def device_assert_async(self, cond, msg) -> None:
        """Reported as a bad index is: when the host waits for something."""
        tree = self.range_trees[0]
        if self.inside_reduction and self.features.is_reduction():
            raise NotImplementedError("webgpu: an assertion about each element of a row")
        here = "live && lane == 0"
        if not self.features.is_reduction():
            total = int(tree.numel) if self.numbered(tree) else f"{tree.prefix}numel"
            here = f"{tree.prefix}index < {total}"
        self.guarded = True
        self.asserted.append(msg)
        place = f"p.assertion{len(self.asserted) - 1}"
        self.compute.writeline(f"if ({here} && !({as_carrier(cond, 'bool')})) {{")
        self.compute.writeline(f"    fault = vec4<u32>({place}, 0u, 0u, 1u);")
        self.compute.writeline("    report();")
        self.compute.writeline("}")

    # -- reductions

    def reduction(self, dtype, src_dtype, reduction_type, value):
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            if self.masks:
                raise NotImplementedError("webgpu: a reduction under a mask")
            self.cse.reduction_cache[key] = reductions.emit(self, dtype, src_dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def accumulator(self, fields: list[tuple[str, str]], init: list) -> list[str]:
        """Variables that a loop gathers in: carriers and what they begin with."""
        number, self.accumulators = self.accumulators, self.accumulators + 1
        names = []
        for (field, carrier), start in zip(fields, init):
            names.append(f"acc{number}_{field}")
            self.body.writeline(f"var {names[-1]} = {literal(start, carrier)};")
        return names

    def kept(self, text: str, dtype: torch.dtype) -> CSEVariable:
        """A variable that is there from the end of the loop on."""
        var = self.cse.newvar(dtype=dtype)
        self._outlives(var)
        self.post_loop.writeline(f"let {var} = {text};")
        return var

    def scan(self, dtypes, combine_fn, values):
        key = (combine_fn, values)
        if key not in self.scanned:
            if self.masks:
                raise NotImplementedError("webgpu: a scan under a mask")
            self.scanned[key] = scans.emit(self, dtypes, combine_fn, values)
        return self.scanned[key]

    def walk_first(self, line: str) -> None:
        """A loop that does what this one has so far, without its stores and accumulators, and then this."""
        inner = IndentedBuffer()
        for part in (self.loop_indexing, self.loads, self.compute):
            inner.splice(part)
        inner.writeline(line)
        self._add(Segment(inner, list(self.loads4.values()), [], list(self.starts)))

    def sort(self, dtypes, values, stable, descending):
        raise NotImplementedError("webgpu: a sort inside a kernel")

    def bucketize(self, *args, **kwargs):
        raise NotImplementedError("webgpu: a search inside a kernel")

    # -- putting it together

    def codegen_body(self) -> None:
        """What has been gathered, as a loop or as it is."""
        parts = (self.loads, self.compute, self.gathers, self.stores, self.post_loop)
        if not any(parts) and not self.loop_indexing:
            return
        if self.inside_reduction:
            self._loop()
            if not self.keeping:
                self.cse.invalidate(self.outside)
                self.loads4.clear()
            self.root().cache_clear()
            self.loop_indexing.clear()
            self.stores4.clear()
            self.scanned.clear()
            self.starts.clear()
        else:
            for part in (self.loads, self.compute, self.stores):
                self.body.splice(part)
        self.body.splice(self.post_loop)
        for part in parts:
            part.clear()

    def _loop(self) -> None:
        """A loop over a row: this thread's share of it, four elements at a time where that may be. Its text is made
        when all of them are known."""
        inner = IndentedBuffer()
        self._inner(inner)
        known = {four.name for segment in self.segments for four in segment.loads} if self.keeping else ()
        loads = [four for four in self.loads4.values() if four.name not in known]
        self._add(Segment(inner, loads, list(self.stores4.values()), list(self.starts)))

    def _add(self, segment: Segment) -> None:
        self.body.writeline(f"{MARK}{len(self.segments)}")
        self.segments.append(segment)

    def _inner(self, body: IndentedBuffer) -> None:
        for part in (self.loop_indexing, self.loads, self.compute, self.gathers, self.stores):
            body.splice(part)

    @staticmethod
    def numbered(root) -> bool:
        return isinstance(root.numel, (int, sympy.Integer))

    def numel_sizes(self) -> list:
        """Ranges whose size is a parameter."""
        return [t for t in self.range_trees if not self.numbered(t)]

    def operands(self) -> list[TensorArg]:
        _, _, args, _ = self.args.python_argdefs()
        if any(not isinstance(a, (TensorArg, SizeArg)) for a in args):
            raise NotImplementedError("webgpu: a kernel with a workspace")
        found = [a for a in args if isinstance(a, TensorArg)]
        if len(found) + self.guarded > caps().max_bindings:
            raise NotImplementedError(
                f"webgpu: a kernel over {len(found)} buffers, where {caps().max_bindings} can be bound"
            )
        for operand in found:
            numel = V.graph.get_numel(operand.buffer)
            if isinstance(numel, (int, sympy.Integer)) and numel * operand.dtype.itemsize > caps().max_binding:
                raise NotImplementedError(
                    f"webgpu: a kernel over a tensor of {numel * operand.dtype.itemsize} bytes, where "
                    f"{caps().max_binding} can be bound"
                )
        return found

    def sizes(self) -> list[tuple[str, str]]:
        """Parameters that are sizes: their names in the text, and in the Python around it."""
        floats = (SymT.FLOAT, SymT.UNBACKED_FLOAT)
        found = [
            (f"{name}: f32" if free_symbol_is_type(expr, floats) else name, str(expr))
            for expr, name in self.args.sizevars.items()
        ]
        wrapper = V.graph.wrapper_code
        for tree in self.numel_sizes():
            found.append((f"{tree.prefix}numel", wrapper.codegen_python_sizevar(tree.numel)))
        return found

    def source(self, name: str) -> Source:
        """The kernel, when all nodes have been walked."""
        self.codegen_body()
        operands = tuple(
            Operand(a.name, T.STORED[self._dtype(a.buffer)], "".join(sorted(self.uses.get(a.name, ()))))
            for a in self.operands()
        )
        sizes = tuple(n for n, _ in self.sizes())
        total = sympy_product([t.numel for t in self.range_trees if not t.is_reduction])
        amount = int(total) if isinstance(total, (int, sympy.Integer)) else f"{self.range_trees[0].prefix}numel"
        known = "".join(f"let {s} = p.{s};\n" for s in (s.partition(":")[0] for s in sizes))
        rest = dict(functions="\n".join(self.helpers.values()), guarded=self.guarded)
        rest |= dict(asserted=tuple(self.asserted))
        if self.features.is_reduction():
            root = self.root()
            length = int(root.numel) if self.numbered(root) else f"{root.prefix}numel"
            body = known + f"let row_end = select(0, {length}, live);\n"
            if self.scans:
                body += f"let stretch = ({length} + LANES * 4 - 1) / (LANES * 4) * 4;\n"
            body += self.indexing_code.getvalue() + self.assembled()
            rest |= dict(length=length, along=self.along >= self.across, loops=len(self.segments), kept=self.keeping)
            rest |= dict(joins=tuple(self.joins.values()), scans=tuple(self.scans.values()))
            return Source(name, operands, sizes, amount, body, reduction=True, **rest)
        fours = bool(self.loads4 or self.stores4)
        body = ("" if fours else known) + self.indexing_code.getvalue() + self.body.getvalue()
        loads = known.splitlines() if fours else []  # where four elements begin may depend on sizes
        loads += [f"let {f.name} = {f.loaded('first')};" for f in self.loads4.values()]
        stores = []
        for f in self.stores4.values():
            if not self._removed(f.buffer):
                loads.append(f"var {f.name}: vec4<{type_of(f.dtype)}>;")
                end = amount if isinstance(amount, int) else f"p.{amount}"
                stores.append(f"write4_{f.operand}({f.base} + first, {f.name}, {f.base} + {end});")
        whole = isinstance(amount, int) and amount % 4 == 0
        rest["tile"] = self.tile if fours and isinstance(amount, int) else None
        return Source(name, operands, sizes, amount, body, loads=tuple(loads), stores=tuple(stores), fours=fours,
                      whole=whole, **rest)  # fmt: skip

    def codegen_kernel(self, name=None) -> str:
        """The arguments, after its name, of the call that makes this kernel in the generated Python."""
        made = self.source("")
        operands = tuple((o.name, o.dtype.name, o.uses) for o in made.operands)
        rest = {n: getattr(made, n) for n in _REST if getattr(made, n) != getattr(Source, n)}
        lines = [f"sizes={made.sizes!r}, count={made.count!r}", *(f"{n}={v!r}" for n, v in rest.items())]
        functions = f"functions='''\n{made.functions}''', " if made.functions else ""
        return f"'''\n{made.body}''', {operands!r}, {functions}{', '.join(lines)}"

    def call_kernel(self, name: str, node=None, deallocate_ws: bool = True) -> None:
        wrapper = V.graph.wrapper_code
        for symbol in self.args.sizevars:
            wrapper.ensure_size_computed(symbol)
        wrapper.uploads.update(a.buffer for a in self.operands() if self._of_host(a.buffer))
        args = [*(a.buffer for a in self.operands()), *(text for _, text in self.sizes())]
        wrapper.writeline(f"{name}({', '.join(args)})")

    def _removed(self, name: str) -> bool:
        return name in V.graph.removed_buffers or name in self.removed_buffers or name in self.inplaced_to_remove
