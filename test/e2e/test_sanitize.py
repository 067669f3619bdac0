"""test/sanitize: generated code with a sanitizer in it. Right models run, and mistakes that are put into their LLVM IR are found: reads
outside of a kernel's own buffers, within a run's memory, results that are not written, tasks that write to one place."""

import os
import shutil
import subprocess
import sys

import pytest
import torch

from conftest import ROOT

sys.path.insert(0, str(ROOT / "test" / "sanitize"))
import sanitized

pytestmark = pytest.mark.skipif(not shutil.which("clang-22"), reason="clang-22 is missing")

KERNEL = "/^define hidden void @map_1(/"
BEGIN = rf"{KERNEL}a %own = load ptr, ptr %0\n"
MISTAKES = {
    "address": (
        rf"{BEGIN}%other = getelementptr i8, ptr %own, i64 240000\n%read = load volatile i32, ptr %other",
        "use-after-poison.*map_1",
    ),
    "memory": (rf"{KERNEL},/^}}/{{/ store <\| store float\|@llvm.masked.store/d}}", "map_1 .*buf.*not written"),
    # Of a kernel whose tasks are long enough for several threads.
    "thread": (rf"{BEGIN.replace('map_1', 'sort_2')}store volatile i32 0, ptr %own", "data race"),
}


class Chain(torch.nn.Module):
    """Maps that a reduction keeps apart: the second one reads what the arena has in its midst."""

    def forward(self, x):
        scores = torch.softmax(x.cumsum(0), 1)
        return (scores - scores.sort(0).values).cumsum(1)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("sanitize")
    module, x = Chain(), torch.randn(300, 200)
    torch.export.save(torch.export.export(module, (x,)), folder / "model.pt2")
    return folder / "model.pt2", module, x


def compile_with(kind, archive, edit=""):
    path = archive.with_name(f"{kind}{len(edit)}.so")
    environment = {**os.environ, "KILN_SANITIZE": kind, "KILN_SANITIZE_EDIT": edit}
    process = subprocess.run([sanitized.COMPILER, archive, "-o", path], capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr[-3000:]
    return sanitized.Model(path, kind, threads=4)


@pytest.mark.parametrize("kind", sanitized.KINDS)
def test_found(program, kind):
    archive, module, x = program
    (actual,) = compile_with(kind, archive).run([x])
    torch.testing.assert_close(actual, module(x))
    edit, report = MISTAKES[kind]
    with pytest.raises(sanitized.Report, match=report):
        compile_with(kind, archive, edit).run([x])
