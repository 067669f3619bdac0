"""Reads the machine code of NVIDIA GPUs as nvdisasm prints it, and says of a kernel what can be proved of it.

`find_faults` gives what must not be in any kernel: memory of a thread's own, and registers of a product of a warpgroup
(wgmma) that something touches before the product has been waited for. `describe` counts what makes a kernel fast."""

import collections
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+\{?\s*(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*?)\s*;")
LABEL = re.compile(r"^([.$][\w.$]+):")
SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
REGISTER = re.compile(r"(?<![\w.])R(\d+)\b")
PREDICATE = re.compile(r"!?U?P(\d|T)$")
ENDS = ("EXIT", "RET", "BPT", "KILL")
# Products of elements of two bytes, of bytes, and of floats of eight bits.
OF_WARPGROUPS, INTO_TENSOR_MEMORY = ("HGMMA", "IGMMA", "QGMMA"), ("UTCHMMA", "UTCIMMA", "UTCQMMA")
ON_TENSOR_CORES = (*OF_WARPGROUPS, *INTO_TENSOR_MEMORY, "HMMA", "IMMA")
STORES = ("ST", "RED")  # how names of instructions begin that write no register


@functools.cache
def find_nvdisasm():
    """The disassembler: named by NVDISASM, on the search path, of PyPI's nvidia-cuda-nvdisasm, or of a CUDA toolkit; None: there is none."""
    packages = [pathlib.Path(folder) / "nvidia" / "cu13" / "bin" / "nvdisasm" for folder in sys.path]
    named = [os.environ.get("NVDISASM"), shutil.which("nvdisasm"), *packages, pathlib.Path("/usr/local/cuda/bin/nvdisasm")]
    return next((str(path) for path in named if path and os.access(path, os.X_OK)), None)


@dataclasses.dataclass
class Instruction:
    address: int
    condition: str  # the predicate, as "P0" or "!P0"; empty: it is always executed
    opcode: str
    operands: list
    targets: tuple = ()  # labels that are named

    @property
    def name(self):
        return self.opcode.split(".")[0]

    def width(self):
        """Registers of an operand that holds data."""
        if ".128" in self.opcode or self.opcode.endswith(".4"):
            return 4
        is_double = re.match(r"D(ADD|MUL|FMA|SETP|MNMX)", self.opcode)
        return 2 if is_double or re.search(r"\.64\b|\.WIDE|\.2$", self.opcode) else 1

    def registers(self):
        """(written, read) numbers of registers, no fewer than there are."""
        if self.name in OF_WARPGROUPS:
            return set(), set()  # who is allowed to do what: see Flight
        written, read = set(), set()
        data = [i for i, operand in enumerate(self.operands) if not PREDICATE.match(operand)]
        factors = data[1:3] if self.opcode.startswith("IMAD.WIDE") else []  # of one register each
        for i, operand in enumerate(self.operands):
            width = 1 if i in factors else self.width()
            found = {
                int(number) + k
                for number in REGISTER.findall(operand)
                for k in range((2 if ".64" in operand else 1) if "[" in operand else width)
            }
            is_written = i == 0 and "[" not in operand and not self.name.startswith(STORES)
            (written if is_written else read).update(found)
        return written, read


class Function:
    """A kernel's instructions, in the order of their addresses."""

    def __init__(self, name):
        self.name, self.instructions, self.labels = name, [], {}

    @functools.cached_property
    def successors(self):
        """For each instruction, the numbers of those that may come next."""
        result = []
        for i, instruction in enumerate(self.instructions):
            following = [i + 1] if i + 1 < len(self.instructions) else []
            if instruction.name in ENDS:
                result.append(following if instruction.condition else [])
                continue
            jumps = instruction.name in ("BRA", "BRX", "CALL", "JMP", "JMX") or instruction.opcode == "WARPSYNC.COLLECTIVE"
            if jumps and not (instruction.targets and self.labels.keys() >= set(instruction.targets)):
                raise ValueError(f"{self.name}: a jump to an unknown place: {instruction}")
            if not jumps:
                result.append(following)
                continue
            is_conditional = instruction.condition or instruction.opcode not in ("BRA", "BRX")
            result.append([*(self.labels[target] for target in instruction.targets), *(following if is_conditional else [])])
        return result

    @functools.cached_property
    def loops(self):
        """(first, last) instructions of innermost loops, each a range of addresses that a jump backwards closes."""
        spans = {
            (target, i)
            for i, instruction in enumerate(self.instructions)
            if instruction.name == "BRA" and (target := self.labels[instruction.targets[0]]) < i
        }
        return sorted(span for span in spans if not any(span[0] <= a and b <= span[1] and (a, b) != span for a, b in spans))


def parse(text):
    """The functions in what `nvdisasm -c` prints."""
    functions = []
    for line in text.splitlines():
        if found := SECTION.match(line):
            functions.append(Function(found[1]))
        elif found := LABEL.match(line):
            functions[-1].labels[found[1]] = len(functions[-1].instructions)
        elif functions and (found := INSTRUCTION.match(line)):
            address, condition, opcode, operands = found.groups()
            targets = tuple(re.findall(r"(?:\.L_|\$)[\w.$]+", operands))  # a jump to one of several has them in a comment
            split = [part.strip() for part in re.split(r",(?![^\[]*\])", operands) if part.strip()]
            functions[-1].instructions.append(Instruction(int(address, 16), condition or "", opcode, split, targets))
    for function in functions:
        # Labels of what follows the code.
        function.labels = {name: min(at, len(function.instructions) - 1) for name, at in function.labels.items()}
    return functions


def disassemble(cubin):
    # The analysis of data flow is left out: it names targets of jumps that go through a stack, as those of older GPUs.
    process = subprocess.run([find_nvdisasm(), "-c", "--no-dataflow", str(cubin)], capture_output=True, text=True)
    if process.returncode:
        raise ValueError(f"{cubin}: nvdisasm: {process.stderr.strip()[-500:]}")
    return parse(process.stdout)


# ===-- Products under way --------------------------------------------------------------------------


class Flight:
    """The registers of products under way at one point: register -> how many groups, at least, began after its own. -1: of the group that is not closed.

    Sums must not be touched, and what is multiplied out of registers must not be written, before a wait for their group."""

    def __init__(self):
        self.sums, self.factors = {}, {}

    def copy(self):
        other = Flight()
        other.sums, other.factors = dict(self.sums), dict(self.factors)
        return other

    def merge(self, other):
        """Takes over what `other` has under way; tells if that is more than there was."""
        changed = False
        for mine, theirs in ((self.sums, other.sums), (self.factors, other.factors)):
            for register, age in theirs.items():
                if register not in mine or age < mine[register]:
                    mine[register], changed = age, True
        return changed

    def step(self, instruction):
        """Passes an instruction; what it does that it must not, or nothing."""
        if instruction.name in OF_WARPGROUPS:
            return self.multiply(instruction)
        if instruction.opcode.startswith("WARPGROUP.DEPBAR"):
            left = int(instruction.operands[1], 16)
            for ages in (self.sums, self.factors):
                for register in [register for register, age in ages.items() if age >= left]:
                    del ages[register]
            return ""
        written, read = instruction.registers()
        if touched := (written | read) & self.sums.keys():
            return f"touches R{min(touched)}, a sum that is not waited for"
        if changed := written & self.factors.keys():
            return f"writes R{min(changed)}, which is being multiplied"
        return ""

    def multiply(self, instruction):
        shape = [int(number) for number in re.search(r"\.(\d+)x(\d+)x(\d+)", instruction.opcode).groups()]
        first = int(REGISTER.match(instruction.operands[0])[1])
        count = shape[1] // (4 if f"x{shape[2]}.F16" in instruction.opcode else 2)
        sums = set(range(first, first + count))
        left = REGISTER.match(instruction.operands[1])
        factors = set(range(int(left[1]), int(left[1]) + 4)) if left else set()
        problem = ""
        if sums & self.factors.keys() or factors & self.sums.keys():
            problem = "multiplies what is not waited for"
        self.sums.update(dict.fromkeys(sums, -1))
        self.factors.update(dict.fromkeys(factors, -1))
        if "gsb0" in instruction.operands:  # closes the group
            for ages in (self.sums, self.factors):
                for register in ages:
                    ages[register] += 1
        return problem


def find_early_touches(function):
    """What touches registers of products under way, along any path."""
    instructions, successors = function.instructions, function.successors
    if not any(instruction.name in OF_WARPGROUPS for instruction in instructions):
        return []
    before, problems, left = {0: Flight()}, {}, [0]
    while left:
        i = left.pop()
        state = before[i].copy()
        if problem := state.step(instructions[i]):
            problems[i] = problem
        for following in successors[i]:
            if following not in before:
                before[following] = state.copy()
                left.append(following)
            elif before[following].merge(state):
                left.append(following)
    return [f"{instructions[i].address:04x} {instructions[i].opcode} {problem}" for i, problem in sorted(problems.items())]


# ===-- Figures -------------------------------------------------------------------------------------


def exponentials_between_waits(function):
    """For the loops that multiply with wgmma: how many exponentials there are before each wait and behind the one before, or the loop's begin;
    [(groups that may be under way still, exponentials)...] for each loop that has any exponentials."""
    result = []
    for first, last in function.loops:
        body = function.instructions[first : last + 1]
        if not any(instruction.name in OF_WARPGROUPS for instruction in body):
            continue
        waits, count = [], 0
        for instruction in body:
            count += instruction.opcode == "MUFU.EX2"
            if instruction.opcode.startswith("WARPGROUP.DEPBAR"):
                waits.append((int(instruction.operands[1], 16), count))
                count = 0
        if count or any(number for _, number in waits):
            result.append(waits)
    return result


def find_early_waits(function):
    """Loops of attention that wait for the product with values before they have computed the exponentials that are to hide it."""
    if not function.name.startswith("attention"):
        return []
    return [
        f"waits {waits}: for all products in front of exponentials"
        for waits in exponentials_between_waits(function)
        if not waits or not waits[-1][1]
    ]


def find_faults(function):
    """What no kernel may have, as lines of text."""
    local = [
        f"{instruction.address:04x} {instruction.opcode}: memory of a thread's own"
        for instruction in function.instructions
        if instruction.name in ("LDL", "STL")
    ]
    return local + find_early_touches(function) + find_early_waits(function)


def bytes_of(instruction):
    """The bytes that a thread's access moves."""
    if found := re.search(r"\.[US]?(8|16|32|64|128)\b", instruction.opcode):
        return int(found[1]) // 8
    return 4


def accesses(function):
    """{(load, store or copy, bytes of a thread's access): how many instructions} of global memory."""
    kinds = {"LDG": "load", "STG": "store", "LDGSTS": "cp.async", "ATOMG": "atomic", "RED": "atomic", "REDG": "atomic"}
    found = collections.Counter()
    for instruction in function.instructions:
        if instruction.name in kinds:
            found[kinds[instruction.name], bytes_of(instruction)] += 1
        elif instruction.name in ("UTMALDG", "UTMASTG"):
            found["box", 0] += 1
    return dict(found)


def loads_in_flight(function):
    """The most loads of global memory that a thread has issued, in a stretch of code, before it needs one."""
    most, waiting = 0, []
    starts = set(function.labels.values())
    for i, instruction in enumerate(function.instructions):
        written, read = instruction.registers()
        if i in starts or any((read | written) & loaded for loaded in waiting):
            waiting = []
        if instruction.name == "LDG":
            waiting.append(written)
            most = max(most, len(waiting))
    return most


@dataclasses.dataclass
class Figures:
    """What the report says of a kernel."""

    instructions: int
    loop: collections.Counter  # opcodes of the innermost loop that multiplies most, or is longest
    accesses: dict
    in_flight: int
    shapes: dict  # of `loop`'s products on tensor cores: (m, n, k) -> how many
    barriers: int  # numbers of barriers of threads
    meetings: int  # barriers in `loop`
    exponentials: list


def shape_of(instruction, function):
    """(m, n, k) of a product on tensor cores."""
    if instruction.name in INTO_TENSOR_MEMORY:  # its descriptor is one of a kernel's constants
        register = re.search(r"idesc\[(UR\d+)\]", " ".join(instruction.operands))[1]
        moves = [each.operands[1] for each in function.instructions if each.opcode == "UMOV" and each.operands[0] == register]
        (description,) = {int(value, 16) for value in moves if value.startswith("0x") and int(value, 16) >> 24 == 8}
        return (description >> 24 & 31) * 16, (description >> 17 & 63) * 8, 16 if instruction.name == "UTCHMMA" else 32
    if found := re.search(r"\.(\d+)x(\d+)x(\d+)", instruction.opcode):
        return tuple(map(int, found.groups()))
    digits = re.search(r"\.(16|8)(8)(4|8|16|32)\b", instruction.opcode)
    return tuple(map(int, digits.groups()))


def describe(function):
    bodies = [function.instructions[first : last + 1] for first, last in function.loops]
    count = lambda body, *names: sum(instruction.name in names for instruction in body)
    body = max(bodies, key=lambda body: (count(body, *ON_TENSOR_CORES), count(body, "FFMA"), len(body)), default=[])
    loop = collections.Counter(instruction.opcode if instruction.name == "MUFU" else instruction.name for instruction in body)
    shapes = collections.Counter(shape_of(instruction, function) for instruction in body if instruction.name in ON_TENSOR_CORES)
    barriers = {instruction.operands[0] for instruction in function.instructions if instruction.name == "BAR"}
    return Figures(
        len(function.instructions),
        loop,
        accesses(function),
        loads_in_flight(function),
        shapes,
        len(barriers),
        loop["BAR"],
        exponentials_between_waits(function),
    )
