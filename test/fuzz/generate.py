"""Writes random programs: operations on tensors of several dtypes, views, writes through views, branches and loops."""

import dataclasses
import math
import random

import torch

import templates
from layers import LAYERS, make_layer
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


def repeats(tensor):
    """True if an element lies at two places of the view, as of windows: which write comes last is not defined then."""
    places = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size()).as_strided(
        tensor.shape, tensor.stride(), tensor.storage_offset()
    )
    return places.unique().numel() != places.numel()


class Writer:
    """Adds random steps to a program that is being executed."""

    def __init__(self, seed, dynamic, favoured=()):
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.dynamic, self.favoured = dynamic, favoured
        self.modules = {}
        self.inputs = self._inputs()
        self.execution = Execution(self.inputs, self.modules)
        self.steps, self.count = [], 0
        self.entry, self.hidden = 0, set()  # what other entries have computed

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
        names = [rng.choice((2, 3, 4, 5, 7, 8, 16, 17) if rng.random() < 0.9 else (24, 33, 64)) for _ in range(3)]
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
        return [name for name in self.execution.exact if name not in self.hidden and accept(self.execution[name])]

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
        if "{s}" in template:
            names["s"] = self._pick(lambda t: t.dtype == tensor.dtype and t.shape == tensor.shape)
        if "{q}" in template:
            names["q"] = self._pick(lambda t: t.dtype in (BOOL, I64, I32))
        return template.format(
            i=rng.randrange(dims),
            j=rng.randrange(dims),
            k=rng.randint(1, 4),
            c=rng.choice((-2, 0, 1, 2, 3)),
            h=rng.choice((0.5, 0.25, 0.125)),
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

    def _attention(self, accept):
        """What is masked out is times 0 in one way to compute it, and left out in another: of finite numbers that is the same."""
        step = self._apply(templates.ATTENTION, accept)
        if not all((given.abs() < 100).all() for name in step.operands() for given, _ in self.execution.values(name)):
            raise Unsuitable("special values")
        return step

    def _cast(self):
        name = self._pick()
        target = self.rng.choice(("F", "torch.float64", "B", "H", "torch.int32", "torch.int64", "torch.int8", "torch.bool"))
        is_float = target in ("F", "torch.float64", "B", "H")
        return Step(f"v{self.count} = {name}.to({target})", f"v{self.count}", True, () if is_float else (name,))

    def _layer(self):
        """A layer of weights on the grid."""
        rng = self.rng
        a = self._pick(lambda t: t.dtype == F32 and t.dim() >= 2)
        kind = rng.choice(LAYERS)
        if kind == "embedding":
            a = self._pick(lambda t: t.dtype in (I64, I32))
        if kind == "conv2d" and self.execution[a].dim() < 3:
            raise Unsuitable("not an image")
        layer = make_layer(rng, kind, self.execution[a].shape)
        name = f"{kind}{len(self.modules)}"
        self.execution.add_module(name, layer)
        argument = f"{a}.long() % 7" if kind == "embedding" else a
        decides = (a,) if kind in ("embedding", "quantized") else ()
        return Step(f"v{self.count} = self.{name}({argument})", f"v{self.count}", kind != "layer_norm", decides)

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
            place = rng.choice(templates.PLACES)
            write = rng.choice(templates.WRITES)
            if "{b}" in write:  # of the place's own size
                write = write.format(b=f"({name}{place} * 2)")
            line = f"{name}{place}{write.format(c=rng.choice((-1, 0, 2)))}"
            decides = ()
        else:
            template = rng.choice(templates.ASSIGN)
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
        layered = lambda t: t.dtype in (F32, F64, BF16, F16) and t.dim() >= 2
        image = lambda t: t.dtype in (F32, F64) and t.dim() == 4
        table = lambda t: t.dtype == I8 and t.dim() == 2
        kinds = {
            "exact": (8, lambda: self._apply(templates.UNARY_EXACT, number, True)),
            "rounded": (6, lambda: self._apply(templates.UNARY_ROUNDED, real)),
            "decides": (5, lambda: self._apply(templates.UNARY_DECIDES, number, True, "a")),
            "integer": (3, lambda: self._apply(templates.UNARY_INTEGER, whole, True, "a")),
            "truth": (2, lambda: self._apply(templates.UNARY_BOOL, lambda t: t.dtype == BOOL, True)),
            "binary-exact": (10, lambda: self._apply(templates.BINARY_EXACT, number, True)),
            "binary-rounded": (3, lambda: self._apply(templates.BINARY_ROUNDED, real)),
            "binary-decides": (5, lambda: self._apply(templates.BINARY_DECIDES, number, True, "ab")),
            "reduce-exact": (6, lambda: self._apply(templates.REDUCE_EXACT, number, True)),
            "reduce-rounded": (4, lambda: self._apply(templates.REDUCE_ROUNDED, real)),
            "reduce-decides": (4, lambda: self._apply(templates.REDUCE_DECIDES, number, True, "a")),
            "views": (18, lambda: self._apply(templates.VIEWS, lambda t: t.dim() >= 1, True)),
            "join": (5, lambda: self._apply(templates.JOIN, lambda t: t.dim() >= 1, True)),
            "index": (6, lambda: self._apply(templates.INDEX, lambda t: t.dim() >= 1, True, "q")),
            "by-data": (2, lambda: self._apply(templates.BY_DATA, number, True, "a")),
            "products": (5, lambda: self._apply(templates.PRODUCTS_EXACT, layered, True)),
            "integer-products": (1, lambda: self._apply(templates.INTEGER_PRODUCTS, table, True)),
            "control": (3, lambda: self._apply(templates.CONTROL, lambda t: number(t) and t.dim() >= 1, True, "q")),
            "carried": (2, lambda: self._apply(templates.CARRIED, lambda t: number(t) and t.dim() >= 1, True)),
            "attention": (1, lambda: self._attention(layered)),
            "images": (1, lambda: self._apply(templates.IMAGES_EXACT, image, True)),
            "images-rounded": (1, lambda: self._apply(templates.IMAGES_ROUNDED, image)),
            "quantized": (2, lambda: self._apply(templates.QUANTIZED, lambda t: t.dtype == F32 and t.dim() >= 2, True, "ab")),
            "cast": (4, self._cast),
            "layer": (4, self._layer),
            "write": (12, self._write),
        }
        weights = [weight * (10 if name in self.favoured else 1) for name, (weight, _) in kinds.items()]
        return self.rng.choices([make for _, make in kinds.values()], weights)[0]()

    def try_step(self):
        """True if a step was added."""
        try:
            step = self.propose()
        except Unsuitable:
            return False
        if step is None:
            return False
        step = dataclasses.replace(step, entry=self.entry)
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

    def program(self, length, entries=1):
        """Programs of so many steps each. Inputs behind the first are state of several; what one computes, others do not see."""
        outputs = []
        for self.entry in range(entries):
            first, attempts = len(self.steps), 0
            while len(self.steps) < first + length and attempts < 20 * length:
                attempts += 1
                self.try_step()
            steps = self.steps[first:]
            used = {name for step in steps for name in step.operands()}
            defined = [step.result for step in steps if step.result]
            last = [name for name in defined if name not in used]
            others = [name for name in defined if name in used]
            outputs += last + self.rng.sample(others, min(len(others), 2))
            self.hidden.update(defined)
        state = tuple(i.name for i in self.inputs[1:]) if entries > 1 else ()
        return Program(self.inputs, tuple(self.steps), tuple(outputs or ["x0"]), self.modules, state)


def generate(seed, dynamic=None, entries=1, favoured=()):
    """The program of a seed: 10 to 40 steps, every second one with dynamic sizes. Several entries have static sizes, and 5 to 15 steps each."""
    dynamic = seed % 2 == 1 if dynamic is None else dynamic
    writer = Writer(seed, dynamic and entries == 1, favoured)
    return writer.program(writer.rng.randint(5, 15) if entries > 1 else writer.rng.randint(10, 40), entries)
