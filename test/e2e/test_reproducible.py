"""The same bytes for the same input, whatever else differs: folder, locale, clock, jobs, cores, umask, environment, addresses."""

import os
import shutil
import subprocess

import pytest
import torch

from conftest import BIN, Mlp

# A clock that is a year ahead and stands still: what faketime does.
CLOCK = """
#include <sys/time.h>
#include <time.h>
time_t time(time_t *out) { if (out) *out = 1924991999; return 1924991999; }
int gettimeofday(struct timeval *out, void *zone) { out->tv_sec = 1924991999; out->tv_usec = 0; return 0; }
int clock_gettime(clockid_t id, struct timespec *out) { out->tv_sec = 1924991999; out->tv_nsec = 0; return 0; }
"""


class Mixed(torch.nn.Module):
    """Kernels of every kind, so that many are compiled at a time: a convolution, products, a sort, a loop, random numbers, texts."""

    def __init__(self):
        super().__init__()
        self.convolution, self.mlp = torch.nn.Conv2d(3, 4, 3), Mlp((36, 20, 6))

    def forward(self, x):
        y = torch.relu(self.convolution(x)).flatten(2)
        y = torch.nn.functional.dropout(self.mlp(y), 0.5, training=True)
        _, z = torch.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * z.mean()), (torch.tensor(0), y))
        torch.ops.higher_order.print("{}", z.sum())
        return y.sort(-1).values, torch.nonzero(y > 0), y.cumsum(1) + z, torch.linalg.inv(y[0, :4, :4])


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("archive") / "model.pt2"
    batch = torch.export.Dim("batch", min=1)
    torch.export.save(torch.export.export(Mixed(), (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: batch},)), path)
    return path


@pytest.mark.parametrize("options", [(), ("--weights=external", "--debug-print=1"), ("--target=cuda", "--gpu-arch=emulator")])
def test_same_bytes(archive, tmp_path, options):
    (tmp_path / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c"], check=True)
    plain = {"PATH": os.environ["PATH"]}
    environments = [
        {**plain, "LC_ALL": "C", "TZ": "UTC", "HOME": "/", "USER": "one"},
        {**plain, "LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Kathmandu", "HOME": str(tmp_path), "USER": "two"},
        {**plain, "LD_PRELOAD": str(tmp_path / "clock.so"), "SOURCE_DATE_EPOCH": "1", "TMPDIR": str(tmp_path), "EXTRA": "x" * 10000},
    ]
    results = []
    for i, environment in enumerate(environments):
        folder = tmp_path / f"{'folder' * (1 + 5 * i)} {i}"
        folder.mkdir()
        copy = shutil.copy(archive, folder / "model.pt2")
        os.utime(copy, (i * 10**9, i * 10**9))
        command = [
            BIN / "aot-compile",
            copy if i else "model.pt2",
            "-o",
            folder / "out.so" if i else "out.so",
            f"--jobs={[1, 4, 3][i]}",
            *options,
        ]
        if i == 1 and shutil.which("setarch"):
            command = ["setarch", "--addr-no-randomize", *command]
        cores = {min(os.sched_getaffinity(0))} if i == 2 else os.sched_getaffinity(0)
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            umask=[0o022, 0o077, 0][i],
            capture_output=True,
            text=True,
            preexec_fn=lambda c=cores: os.sched_setaffinity(0, c),
        )
        assert done.returncode == 0, done.stderr
        results.append({path.name: path.read_bytes() for path in folder.glob("out.so*")})
    assert len(results[0]) == 1 + ("--weights=external" in options)
    assert results[0] == results[1] == results[2]
    for data in results[0].values():
        assert str(tmp_path).encode() not in data and os.uname().nodename.encode() not in data
