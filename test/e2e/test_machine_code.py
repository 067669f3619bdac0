"""The machine code of Hopper's, Blackwell's and other kernels: what no kernel may have, and the figures that docs/cuda-kernels.md gives."""

import dataclasses
import re

import machine_code
import machine_code_report
import pytest
from machine_code import exponentials_between_waits, find_faults, parse

from conftest import BIN, PTXAS

SUMS = """
	.section	.text.kernel,"ax",@progbits
.text.kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR16], RZ, !UPT, gsb0 ;
        /*0020*/                   HGMMA.64x16x16.F32.BF16 R40, R4, gdesc[UR20], R40, gsb0 ;
        /*0030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0040*/                   {0} ;
        /*0050*/              @P0  BRA `(.L_x_0) ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0070*/                   FADD R40, R40, R24 ;
        /*0080*/                   EXIT ;
.L_x_1:
        /*0090*/                   BRA `(.L_x_1);
"""


@pytest.mark.parametrize(
    "instruction, problem",
    [
        ("FADD R2, R24, 1", ""),  # waited for
        ("FADD R2, R3, R40", "touches R40"),  # read
        ("IMAD.WIDE R46, R2, R3, RZ", "touches R46"),  # written, with a register behind it
        ("IMAD.WIDE.U32.X R2, P1, R39, R55, R2, P0", ""),  # factors are single registers
        ("IMAD.WIDE.U32 R2, R55, R2, R46", "touches R46"),
        ("STS.128 [R2+0x10], R36", ""),
        ("STS.128 [R2+0x10], R45", "touches R45"),
        ("STG.E.128 desc[UR4][R46.64], R8", "touches R46"),
        ("MOV R5, R2", "writes R5, which is being multiplied"),
        ("FADD R2, R5, R5", ""),
        ("STL [R1], R2", "memory of a thread's own"),
        ("HGMMA.64x8x16.F32.BF16 R56, R52, gdesc[UR20], RZ, !UPT", ""),
        ("HGMMA.64x8x16.F32.BF16 R56, R44, gdesc[UR20], RZ, !UPT", "multiplies what is not waited for"),
        ("QGMMA.64x8x32.F32.E4M3.E4M3 R56, gdesc[UR20], RZ, !UPT", ""),
        ("IGMMA.64x8x32.S8.S8 R56, R44, gdesc[UR20], RZ, !UPT", "multiplies what is not waited for"),
    ],
)
def test_faults(instruction, problem):
    (function,) = parse(SUMS.replace("{0}", instruction))
    faults = find_faults(function)
    assert bool(faults) == bool(problem) and all(problem in fault for fault in faults), faults


def test_faults_of_other_paths():
    """What is under way when a loop begins again, or behind a jump."""
    late = SUMS.replace("{0}", "NOP").replace("WARPGROUP.DEPBAR.LE gsb0, 0x0", "WARPGROUP.DEPBAR.LE gsb0, 0x1")
    (function,) = parse(late)
    assert [fault.split(" ")[0] for fault in find_faults(function)] == ["0070"]
    early = (
        late.replace("MOV R1, c[0x0][0x28]", "FADD R24, R24, R40")
        .replace(".L_x_0:\n", "")
        .replace(".text.kernel:", ".text.kernel:\n.L_x_0:")
    )
    (function,) = parse(early.replace("{0}", "NOP"))
    assert [fault.split(" ")[0] for fault in find_faults(function)] == ["0000", "0070"]
    (function,) = parse(SUMS.replace("{0}", "@P1 BRA `(.L_x_9)").replace(".L_x_1:", ".L_x_9:\n/*0088*/ FADD R2, R2, R40 ;\n.L_x_1:"))
    assert [fault.split(" ")[0] for fault in find_faults(function)] == ["0088"]
    several = '@P1 BRX R2 -0x10 (*"BRANCH_TARGETS .L_x_1,.L_x_9"*)'
    (function,) = parse(SUMS.replace("{0}", several).replace(".L_x_1:", ".L_x_9:\n/*0088*/ FADD R2, R2, R40 ;\n.L_x_1:"))
    assert [fault.split(" ")[0] for fault in find_faults(function)] == ["0088"]
    (function,) = parse(SUMS.replace("{0}", "BRX R2 -0x10"))
    with pytest.raises(ValueError, match="a jump to an unknown place"):
        find_faults(function)


def test_exponentials():
    for place, counts in ((0x20, [(1, 1)]), (0x40, [(1, 0)])):
        text = SUMS.replace("{0}", "NOP").replace(
            f"        /*00{place + 16:02x}*/", f"        /*00{place + 8:02x}*/   MUFU.EX2 R2, R3 ;\n        /*00{place + 16:02x}*/"
        )
        (function,) = parse(text)
        assert exponentials_between_waits(function) == [counts]
        function.name = "attention_0"
        assert bool(find_faults(function)) == (counts == [(1, 0)])
    (function,) = parse(SUMS.replace("{0}", "NOP"))
    assert exponentials_between_waits(function) == []


needs_tools = pytest.mark.skipif(not (PTXAS and machine_code.find_nvdisasm()), reason="no ptxas, or no nvdisasm")


@pytest.fixture(scope="module")
def codes():
    return machine_code_report.compile_all(machine_code_report.entries(), BIN / "aot-compile")


@needs_tools
def test_kernels(codes):
    """No kernel has what none may have, and ptxas has not moved a wait in front of what is computed meanwhile."""
    assert not (faults := {code.title: found for code in codes if (found := find_faults(code.function))}), faults
    attentions = [code for code in codes if code.variant and code.entry.kernel == "attention"]
    assert len(attentions) >= 5
    for code in attentions:
        for waits in exponentials_between_waits(code.function):
            # For scores, at once; then for the product with values, behind every exponential but none.
            assert [left for left, _ in waits] == [1, 0] and waits[0][1] == 0 and waits[1][1] >= 16, (code.title, waits)
            loop = machine_code.describe(code.function).loop
            assert waits[1][1] == loop["MUFU.EX2"], code.title


@needs_tools
def test_turns(codes):
    """Of up to 128 features, a warpgroup waits for its turn behind the wait for keys, and passes it on when it has asked for both products,
    before it waits for either. Of more there are no turns."""
    seen = set()
    for code in (code for code in codes if code.variant and code.entry.kernel == "attention"):
        is_ordered = "256 features" not in code.title
        for first, last in code.function.loops:
            opcodes = [instruction.opcode for instruction in code.function.instructions[first : last + 1]]
            find = lambda start: [i for i, opcode in enumerate(opcodes) if opcode.startswith(start)]  # noqa: B023
            products, wait = find("HGMMA"), next(iter(find("WARPGROUP.DEPBAR")), None)
            if not products or "MUFU.EX2" not in opcodes:
                continue
            waits = [i for i in find("SYNCS.PHASECHK") if i < products[0]]
            passed = [i for i in find("SYNCS.ARRIVE") if products[-1] < i < wait]
            assert (len(waits), len(passed)) == (1 + is_ordered, is_ordered), code.title
            seen.add(is_ordered)
    assert seen == {False, True}


@needs_tools
def test_faults_of_a_kernel(codes):
    """The same code without one of its waits is found to be wrong, whichever it is."""
    code = next(code for code in codes if code.variant and code.entry.kernel == "attention")
    function, tried = code.function, 0
    for i, instruction in enumerate(function.instructions):
        if instruction.opcode.startswith("WARPGROUP.DEPBAR"):
            function.instructions[i] = dataclasses.replace(instruction, opcode="NOP", operands=[])
            assert find_faults(function), instruction
            function.instructions[i] = instruction
            tried += 1
    assert tried >= 4


@needs_tools
def test_document(codes):
    text, release = machine_code_report.documented()
    found = machine_code_report.find_release(PTXAS)
    if found != release:
        pytest.skip(f"the document is of ptxas {release}, this is {found}")
    mine = machine_code_report.tables(codes, found)
    assert re.sub(r" +", " ", mine) == re.sub(r" +", " ", text), "out of date: run test/machine_code_report.py --document"
