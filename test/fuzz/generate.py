"""Writes random programs: operations on tensors of several dtypes, views, writes through views, branches and loops."""

import math
import random

import torch

from program import MAX_ELEMENTS, Execution, Input, Program, Step, Unsuitable

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
I64, I32, I16, I8, U8, BOOL = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool
SPECIAL = {
    F32: (float("nan"), float("inf"), -float("inf"), -0.0, 3e38, 1e-40),
    I64: (2**63 - 1, -(2**63)),
    I32: (2**31 - 1, -(2**31)),
    I8: (127, -128),
    U8: (255,),
}
# {a}, {b}: operands, {i}: a dim, {c}: a small constant, {k}: a small positive integer.
# Exact of exact operands, for numbers (bool left out).
UNARY_EXACT = (
    "torch.relu({a})",
    "-{a}",
    "{a}.abs()",
    "{a} + {c}",
    "{c} - {a}",
    "{a} * 2",
    "{a}.clamp(-3, 5)",
    "{a}.clamp_min({c})",
    "torch.clamp({a}, max={c})",
    "torch.nn.functional.threshold({a}, 1, {c})",
    "{a}.square()",
    "torch.nn.functional.relu6({a})",
    "torch.nn.functional.hardtanh({a})",
    "{a}.clone()",
    "{a}.contiguous()",
    "torch.zeros_like({a}) + {a}",
    "{a}.nan_to_num(1)",
)
UNARY_ROUNDED = (
    "torch.sigmoid({a})",
    "torch.tanh({a})",
    "torch.sin({a})",
    "torch.exp({a}.clamp(-4, 4))",
    "torch.nn.functional.gelu({a})",
    "torch.nn.functional.silu({a})",
    "torch.sqrt({a}.abs())",
    "torch.log1p({a}.abs())",
    "1 / ({a}.square() + 1)",
    "torch.atan({a})",
    "torch.nn.functional.softplus({a})",
    "torch.erf({a})",
    "{a} / 3",
    "torch.rsqrt({a}.abs() + 1)",
    "torch.nn.functional.elu({a})",
    "torch.nn.functional.leaky_relu({a})",
    "torch.nn.functional.mish({a})",
    "torch.expm1({a}.clamp(-3, 3))",
)
UNARY_DECIDES = (
    "torch.sign({a})",
    "torch.floor({a})",
    "torch.ceil({a})",
    "torch.round({a})",
    "torch.trunc({a})",
    "{a} > {c}",
    "{a} <= {c}",
    "{a} != {c}",
    "torch.isnan({a})",
    "{a}.bool()",
    "{a} % 3",
    "{a} // 4",
    "torch.remainder({a}, -3)",
    "torch.fmod({a}, 3)",
    "torch.frac({a})",
    "torch.heaviside({a}, torch.ones_like({a}))",
)
UNARY_INTEGER = (
    "{a} << 1",
    "{a} >> 1",
    "~{a}",
    "{a} & 6",
    "{a} | 5",
    "{a} ^ 3",
    "torch.div({a}, -3, rounding_mode='floor')",
    "torch.div({a}, 3, rounding_mode='trunc')",
    "{a} // -4",
)
UNARY_BOOL = ("~{a}", "{a}.to(F)", "{a}.to(torch.int32)", "{a} | {a}.flip(0)", "{a}.to(torch.uint8)")
BINARY_EXACT = (
    "{a} + {b}",
    "{a} - {b}",
    "{a} * {b}",
    "torch.maximum({a}, {b})",
    "torch.minimum({a}, {b})",
    "torch.add({a}, {b}, alpha=2)",
    "torch.fmax({a}, {b})",
    "torch.addcmul({a}, {b}, {b})",
    "torch.lerp({a}, {b}, 0.5)",
    "torch.hypot({a} * 0, {b} * 0)",
)
BINARY_ROUNDED = (
    "{a} / ({b}.abs() + 1)",
    "torch.atan2({a}, {b}.abs() + 1)",
    "torch.pow({a}.abs() + 0.5, 1.5)",
    "torch.logaddexp({a}, {b})",
)
BINARY_DECIDES = (
    "{a} > {b}",
    "{a} == {b}",
    "{a} <= {b}",
    "torch.where({a} > {b}, {a}, {b})",
    "torch.where({a} != {b}, {b}, 0)",
    "{a} // ({b}.abs() + 1)",
    "{a} % ({b}.square() + 1)",
    "{a}.masked_fill({b} < 1, {c})",
    "torch.isclose({a}, {b})",
    "torch.fmod({a}, {b}.abs() + 1)",
)
REDUCE_EXACT = (
    "{a}.sum({i})",
    "{a}.sum({i}, keepdim=True)",
    "{a}.amax({i})",
    "{a}.amin({i}, keepdim=True)",
    "{a}.sum()",
    "{a}.max({i}).values",
    "{a}.cumsum({i})",
    "torch.cummax({a}, {i}).values",
    "{a}.sort({i}).values",
    "{a}.sort({i}, descending=True).values",
    "torch.diff({a}, dim={i})",
    "{a}.aminmax(dim={i}).max",
)
REDUCE_ROUNDED = (
    "{a}.mean({i})",
    "torch.softmax({a}, {i})",
    "torch.log_softmax({a}, {i})",
    "torch.logsumexp({a}, {i})",
    "{a}.var({i}, correction=0)",
    "torch.nn.functional.layer_norm({a}, {a}.shape[-1:])",
    "torch.linalg.vector_norm({a}, dim={i})",
    "{a}.mean({i}, keepdim=True)",
    "torch.nn.functional.normalize({a}, dim={i})",
    "torch.logcumsumexp({a}.clamp(-5, 5), {i})",
)
REDUCE_DECIDES = (
    "{a}.argmax({i})",
    "{a}.argmin({i}, keepdim=True)",
    "{a}.argsort({i}, stable=True)",
    "({a} > 0).any({i})",
    "({a} > 0).all({i})",
    "({a} > 1).sum({i})",
    "{a}.max({i}).indices",
    "torch.count_nonzero({a}, {i})",
    "torch.cummin({a}, {i}).indices",
    "{a}.sort({i}, stable=True).indices",
    "torch.argmax({a}.reshape(-1))",
)
VIEWS = (
    "{a}.transpose({i}, {j})",
    "{a}.unsqueeze({i})",
    "{a}.flip({i})",
    "{a}.roll({k}, {i})",
    "{a}.select({i}, 0)",
    "{a}.select({i}, -1)",
    "{a}.narrow({i}, 0, {a}.shape[{i}] // 2)",
    "{a}.reshape(-1)",
    "{a}.flatten(0, 1)",
    "{a}.movedim({i}, 0)",
    "{a}.squeeze()",
    "{a}[..., None]",
    "{a}.unfold({i}, 2, 1)",
    "{a}.diagonal()",
    "{a}.expand(2, *{a}.shape)",
    "{a}[::2]",
    "{a}[1:]",
    "{a}[:-1]",
    "{a}.mT",
    "{a}.chunk(2, {i})[0]",
    "{a}.chunk(2, {i})[-1]",
    "{a}.repeat({ones}2)",
    "torch.cat([{a}, {a}], {i})",
    "torch.stack([{a}, {a}], {i})",
    "torch.nn.functional.pad({a}, (1, 2))",
    "torch.nn.functional.pad({a}, (-1, 1))",
    "{a}.reshape({a}.shape[0], -1)",
    "{a}.permute({perm})",
    "torch.tril({a})",
    "torch.triu({a}, 1)",
    "{a}.repeat_interleave(2, {i})",
    "torch.rot90({a}, 1, ({i}, {j}))",
    "{a}.unflatten({i}, ({a}.shape[{i}], 1))",
    "{a}[None].squeeze(0)",
    "{a}.swapaxes({i}, {j}).contiguous()",
    "{a}.view({a}.shape)",
    "{a}.tile(2)",
    "{a}.T",
    "{a}.broadcast_to(3, *{a}.shape)",
    "{a}.unbind({i})[0]",
    "{a}[..., {a}.shape[-1] // 2:]",
    "{a}[..., :{a}.shape[-1] // 2]",
    "{a}.split(2, {i})[0]",
)
JOIN = ("torch.cat([{a}, {b}], {i})", "torch.stack([{a}, {b}], {i})", "torch.cat([{a}, {b} * 2, {a}], {i})")
INDEX = (
    "{a}.index_select({i}, ({q}.reshape(-1).long() % {a}.shape[{i}]).abs())",
    "{a}[({q}.reshape(-1).long() % {a}.shape[0]).abs()]",
    "{a}.gather(0, ({a} * 0).nan_to_num(0).long())",
    "{a}.scatter_add(0, torch.zeros_like({a}, dtype=torch.int64), {a})",
    "{a}.index_add(0, torch.arange({a}.shape[0]), {a})",
    "{a}.masked_fill({q}.sum() > 0, {c})",
    "torch.where({q}.sum() > 1, {a}, 0)",
    "{a}.index_copy(0, torch.arange({a}.shape[0]).flip(0), {a})",
    "torch.take({a}, {q}.reshape(-1).long() % max({a}.numel(), 1))",
    "{a} * torch.arange({a}.shape[-1])",
    "{a} + torch.full(({a}.shape[-1],), {c})",
    "{a}.index_fill(0, torch.tensor([0]), {c})",
)
BY_DATA = (
    "{a}[{a} > 0]",
    "torch.masked_select({a}, {a} <= 1)",
    "{a}.reshape(-1)[torch.nonzero({a}.reshape(-1) > 0)[:, 0]]",
    "torch.nonzero({a})",
    "{a}.unique()",
    "{a}[{a}.reshape({a}.shape[0], -1).sum(1) > 0]",
)
PRODUCTS_EXACT = (
    "{a} @ {b}",
    "{a} @ {b}.mT",
    "torch.einsum('...i,...i->...', {a}, {b})",
    "torch.matmul({a}.mT, {b})",
    "torch.addmm({b}[0], {a}, {b})",
    "torch.outer({a}.reshape(-1), {b}.reshape(-1))",
    "torch.bmm({a}, {b})",
)
CONTROL = (
    "cond({q}.sum() > {k}, lambda s, t: s + t, lambda s, t: s - t * 2, ({a}, {b}))",
    "cond({a}.shape[0] > 3, lambda s: s.flip(0) + 1, lambda s: s * 2, ({a},))",
    "cond({q}.any(), lambda s: s.relu().sum(0), lambda s: s.amax(0), ({a},))",
    "while_loop(lambda n, s: n < {k}, lambda n, s: (n + 1, s + n), (torch.tensor(0), {a}.clone()))[1]",
    "while_loop(lambda n, s: n < 3, lambda n, s: (n + 1, (s * 2).clamp(-9, 9)), (torch.tensor(0), {a} + 0))[1]",
    "scan(lambda s, t: (s + t, s * 1), {a}[0] * 0, {a})[1]",
    "scan(lambda s, t: (torch.maximum(s, t), s + t), {a}[0] * 1, {a})[0]",
)
PLACES = (
    "[0]",
    "[-1]",
    "[1:]",
    "[::2]",
    "[..., 0]",
    "[..., 1:]",
    ".mT[0]",
    ".transpose(0, -1)[0]",
    ".reshape(-1)[0]",
    ".diagonal()",
    "[:, :1]",
    ".flatten()",
    ".select(-1, 0)",
    ".unsqueeze(0)",
    "[None][..., -1]",
    ".squeeze()",
    ".view(-1)[::2]",
    ".contiguous()",
    ".chunk(2, 0)[0]",
)
WRITES = (
    ".add_({c})",
    ".mul_(2)",
    ".fill_({c})",
    ".zero_()",
    ".clamp_(-2, 3)",
    ".neg_()",
    ".copy_({b})",
    ".add_({b})",
    ".sub_({b})",
    ".relu_()",
)
ASSIGN = (
    "{a}[{q}.sum() > 0] = {c}",
    "{a}[({a} > 1)] = {c}",
    "{a}[0] = {c}",
    "{a}[..., 1:] = {b}[..., :-1].clone()",
    "{a}[:1] += {b}[:1]",
    "{a}.index_put_((torch.tensor([0]),), {b}[:1], accumulate=True)",
    "{a}.masked_fill_({a} > 2, {c})",
    "{a}[torch.arange({a}.shape[0])] = {b}",
    "{a}.scatter_(0, torch.zeros_like({a}, dtype=torch.int64), {c})",
    "{a}.index_add_(0, torch.tensor([0]), {b}[:1])",
)


def repeats(tensor):
    """True if an element lies at two places of the view, as of windows: which write comes last is not defined then."""
    places = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size()).as_strided(
        tensor.shape, tensor.stride(), tensor.storage_offset()
    )
    return places.unique().numel() != places.numel()


class Writer:
    """Adds random steps to a program that is being executed."""

    def __init__(self, seed, dynamic):
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.dynamic = dynamic
        self.modules = {}
        self.inputs = self._inputs()
        self.execution = Execution(self.inputs, self.modules)
        self.steps, self.count = [], 0

    # -- inputs

    def _tensor(self, shape, dtype, special):
        rng = self.rng
        if dtype == BOOL:
            return torch.rand(shape) > 0.5
        if not dtype.is_floating_point:
            value = torch.randint(0 if dtype == U8 else -9, 10, shape).to(dtype)
        else:
            value = (torch.randint(-24, 25, shape) / 8).to(dtype)
        if special and value.numel() and dtype in SPECIAL:
            flat = value.view(-1)
            for _ in range(rng.randint(1, 2)):
                flat[rng.randrange(flat.numel())] = rng.choice(SPECIAL[dtype])
        return value

    def _inputs(self):
        """Dims of few sizes, so that operands fit each other; one set of sizes, or three if they are dynamic."""
        rng = self.rng
        names = [rng.choice((2, 3, 4, 5, 7, 8, 16, 17)) for _ in range(3)]
        if not self.dynamic:
            names = [rng.choice((0, 1)) if rng.random() < 0.12 else size for size in names]
        sets = [names]
        for _ in range(2 if self.dynamic else 0):
            sets.append([rng.choice((0, 1)) if rng.random() < 0.15 else rng.randint(2, 20) for _ in names])
        is_open = [self.dynamic and rng.random() < 0.8 for _ in names]
        sets = [[new if open_ else old for new, old, open_ in zip(sizes, names, is_open)] for sizes in sets]
        special = rng.random() < 0.3
        inputs = []
        for number in range(rng.randint(2, 4)):
            dims = [rng.randrange(3) for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 4)))]
            while any(math.prod(sizes[d] for d in dims) > MAX_ELEMENTS for sizes in sets):
                dims.pop()
            dtype = rng.choice((F32, F32, F32, F32, F32, F64, BF16, F16, I64, I32, I16, I8, U8, BOOL)) if number else F32
            permuted = rng.sample(range(len(dims)), len(dims)) if rng.random() < 0.2 else None
            tensors = []
            for sizes in sets:
                tensor = self._tensor([sizes[d] for d in dims], dtype, special)
                if permuted:  # the same sizes in another order of memory
                    inverse = [permuted.index(d) for d in range(len(dims))]
                    tensor = tensor.permute(permuted).contiguous().permute(inverse)
                tensors.append(tensor)
            inputs.append(Input(f"x{number}", tuple(tensors), tuple(at for at, d in enumerate(dims) if is_open[d])))
        return tuple(inputs)

    # -- steps

    def _values(self, accept):
        return [name for name in self.execution.exact if accept(self.execution[name])]

    def _pick(self, accept=lambda t: True):
        """A value, a late one rather than an early one."""
        found = self._values(accept)
        if not found:
            raise Unsuitable("no operand")
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def _fill(self, template, **names):
        """The template with its holes filled. Operands are picked by the first of them."""
        rng, a = self.rng, names["a"]
        tensor = self.execution[a]
        dims = max(tensor.dim(), 1)
        if "{b}" in template and "b" not in names:
            names["b"] = self._pick(lambda t: t.dtype == tensor.dtype and (t.shape == tensor.shape or rng.random() < 0.2))
        if "{q}" in template:
            names["q"] = self._pick(lambda t: t.dtype in (BOOL, I64, I32))
        return template.format(
            i=rng.randrange(dims),
            j=rng.randrange(dims),
            k=rng.randint(1, 4),
            c=rng.choice((-2, 0, 1, 2, 3)),
            ones="1, " * (dims - 1),
            perm=", ".join(map(str, rng.sample(range(tensor.dim()), tensor.dim()))),
            **names,
        ), names

    def _apply(self, templates, accept, is_exact=False, decides=(), is_write=False):
        template = self.rng.choice(templates)
        text, names = self._fill(template, a=self._pick(accept))
        found = tuple(names[key] for key in decides if key in names)
        if is_write:
            return Step(text, "", is_exact, found)
        result = f"v{self.count}"
        return Step(f"{result} = {text}", result, is_exact, found)

    def _cast(self):
        name = self._pick()
        target = self.rng.choice(("F", "torch.float64", "B", "H", "torch.int32", "torch.int64", "torch.int8", "torch.bool"))
        is_float = target in ("F", "torch.float64", "B", "H")
        return Step(f"v{self.count} = {name}.to({target})", f"v{self.count}", True, () if is_float else (name,))

    def _layer(self):
        """A layer of weights on the grid."""
        rng = self.rng
        a = self._pick(lambda t: t.dtype == F32 and t.dim() >= 2)
        tensor = self.execution[a]
        kind = rng.choice(("linear", "conv1d", "embedding", "layer_norm", "conv2d"))
        width = tensor.shape[-1]
        if kind == "linear":
            layer = torch.nn.Linear(width, rng.choice((1, 3, 8, 17)))
        elif kind == "conv1d":
            layer = torch.nn.Conv1d(
                tensor.shape[-2], rng.choice((1, 4, 9)), rng.choice((1, 2, 3)), stride=rng.choice((1, 2)), padding=rng.choice((0, 1))
            )
        elif kind == "conv2d":
            if tensor.dim() < 3:
                raise Unsuitable("not an image")
            layer = torch.nn.Conv2d(tensor.shape[-3], rng.choice((2, 5)), rng.choice((1, 3)), padding=rng.choice((0, 1)))
        elif kind == "layer_norm":
            layer = torch.nn.LayerNorm(width)
        else:
            a = self._pick(lambda t: t.dtype in (I64, I32))
            layer = torch.nn.Embedding(7, 4)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(torch.randint(-4, 5, parameter.shape) / 4)
        name = f"{kind}{len(self.modules)}"
        layer.requires_grad_(False).eval()
        self.execution.add_module(name, layer)
        argument = f"{a}.long() % 7" if kind == "embedding" else a
        return Step(f"v{self.count} = self.{name}({argument})", f"v{self.count}", kind != "layer_norm", (a,) if kind == "embedding" else ())

    def _write(self):
        """Of an input, of a value, or of a new copy."""
        rng = self.rng
        target = self._pick(lambda t: t.dtype != BOOL and t.dim() >= 1 and not repeats(t))
        lines, name = "", target
        if rng.random() < 0.6:
            name = f"v{self.count}"
            lines = f"{name} = {target}{rng.choice(('.clone()', ' * 1', '.transpose(0, -1).contiguous()', ' + 1'))}\n"
        tensor = self.execution[target]
        if rng.random() < 0.6:
            place = rng.choice(PLACES)
            write = rng.choice(WRITES)
            if "{b}" in write:  # of the place's own size
                write = write.format(b=f"({name}{place} * 2)")
            line = f"{name}{place}{write.format(c=rng.choice((-1, 0, 2)))}"
            decides = ()
        else:
            template = rng.choice(ASSIGN)
            line, names = self._fill(template, a=name if not lines else target)
            if lines:
                line = line.replace(target, name)
            decides = (target,) if ">" in template else ()
            decides += tuple(names[key] for key in ("q",) if key in names)
        return Step(lines + line, name if lines else "", True, decides) if tensor.dim() else None

    def propose(self):
        number = lambda t: t.dtype != BOOL
        real = lambda t: t.is_floating_point()
        whole = lambda t: not t.is_floating_point() and t.dtype != BOOL
        matrix = lambda t: t.dtype in (F32, F64) and t.dim() >= 2
        kinds = (
            (8, lambda: self._apply(UNARY_EXACT, number, True)),
            (6, lambda: self._apply(UNARY_ROUNDED, real)),
            (5, lambda: self._apply(UNARY_DECIDES, number, True, "a")),
            (3, lambda: self._apply(UNARY_INTEGER, whole, True, "a")),
            (2, lambda: self._apply(UNARY_BOOL, lambda t: t.dtype == BOOL, True)),
            (10, lambda: self._apply(BINARY_EXACT, number, True)),
            (3, lambda: self._apply(BINARY_ROUNDED, real)),
            (5, lambda: self._apply(BINARY_DECIDES, number, True, "ab")),
            (6, lambda: self._apply(REDUCE_EXACT, number, True)),
            (4, lambda: self._apply(REDUCE_ROUNDED, real)),
            (4, lambda: self._apply(REDUCE_DECIDES, number, True, "a")),
            (18, lambda: self._apply(VIEWS, lambda t: t.dim() >= 1, True)),
            (5, lambda: self._apply(JOIN, lambda t: t.dim() >= 1, True)),
            (6, lambda: self._apply(INDEX, lambda t: t.dim() >= 1, True, "q")),
            (2, lambda: self._apply(BY_DATA, number, True, "a")),
            (5, lambda: self._apply(PRODUCTS_EXACT, matrix, True)),
            (3, lambda: self._apply(CONTROL, lambda t: number(t) and t.dim() >= 1, True, "q")),
            (4, self._cast),
            (4, self._layer),
            (12, self._write),
        )
        return self.rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def try_step(self):
        """True if a step was added."""
        try:
            step = self.propose()
        except Unsuitable:
            return False
        if step is None:
            return False
        try:
            self.execution.add(step)
        except Exception:
            if step.result and "\n" not in step.text:
                self.execution.forget(step.result)
            else:  # it may have written something before it failed
                self.execution = Program(self.inputs, tuple(self.steps), (), self.modules).execute()
            return False
        self.steps.append(step)
        self.count += 1
        return True

    def program(self, length):
        attempts = 0
        while len(self.steps) < length and attempts < 20 * length:
            attempts += 1
            self.try_step()
        used = {name for step in self.steps for name in step.operands()}
        defined = [step.result for step in self.steps if step.result]
        last = [name for name in defined if name not in used]
        others = [name for name in defined if name in used]
        outputs = last + self.rng.sample(others, min(len(others), 2))
        return Program(self.inputs, tuple(self.steps), tuple(outputs or ["x0"]), self.modules)


def generate(seed, dynamic=None):
    """The program of a seed: 10 to 40 steps, every second one with dynamic sizes."""
    dynamic = seed % 2 == 1 if dynamic is None else dynamic
    writer = Writer(seed, dynamic)
    return writer.program(writer.rng.randint(10, 40))
