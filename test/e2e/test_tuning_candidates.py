"""Candidates that misbehave while they are timed: aot-tune on bundles of a library whose kernels do as they are told."""

import hashlib
import json
import re
import struct
import subprocess

from conftest import ROOT, run_tool, unseal_results

MAGIC = b"KILNTUNE"

LIBRARY = r"""
#include "kiln-c/model.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The thread computes for so many microseconds, whatever else the machine does. */
static void work(long microseconds) {
  struct timespec from, to;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
  while ((to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000 < microseconds);
}

static int isTurned;

int32_t kiln_model_create(const kiln_options *options, kiln_model **model) { (void)options; *model = (kiln_model *)&kiln_model_create; return 0; }
const char *kiln_last_error(void) { return "it says no"; }
int32_t kiln_steps_find(const char *name) { return name[0] - 'a'; }
int32_t kiln_steps_wait(kiln_model *model) { (void)model; return 0; }

/* As an illegal address does, for this process. */
static void break_gpu(void) {
  void *driver = dlopen(getenv("KILN_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  *(int *)dlsym(driver, "broken") = 1;
}
int32_t kiln_steps_run(kiln_model *model, int32_t step, const DLTensor *const *tensors, size_t count, const int64_t *symbols, size_t numbers) {
  (void)model, (void)symbols, (void)numbers;
  float *result = tensors[count - 1]->data;
  switch ('a' + step) {
  case 'a': work(2000); break;                                /* the first */
  case 'b': work(400); break;                                 /* faster */
  case 'c': raise(SIGSEGV); break;
  case 'd': for (;;) pause();
  case 'e': exit(0);
  case 'f': return 1;
  case 'g': result[0] = 2; return 0;                          /* wrong */
  case 'h': work(4000); break;                                /* slower */
  case 'i': abort();                                          /* the first, of another kernel */
  case 'j': work(1998); break;                                /* faster by nothing that counts */
  case 'l': work(isTurned ? 4000 : 400); isTurned = 0; break; /* faster, but for what another kernel leaves */
  case 'm': work(500); isTurned = 1; break;                   /* that one */
  case 'n': break_gpu(); return 1;
  case 'k': work(1800); usleep(3000); break;                  /* faster, and others have the CPU meanwhile */
  }
  for (int i = 0; i < 16; ++i)
    result[i] = 1;
  return 0;
}
"""


def make_bundle(folder, kernels, sequence=(), architecture=""):
    (folder / "fake.c").write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT / 'include'}", "-o", folder / "fake.so", folder / "fake.c"], check=True)
    buffers = [{"code": 2, "bits": 32, "sizes": [16], "result": result, "constant": not result} for result in (False, True)]
    manifest = {
        "format": "kiln tuning bundle 1", "compiler": "kiln", "target": "cpu", "threads": 1, "weight_bytes": 1 << 20,
        "sequence": sequence, "architecture": architecture,
        "kernels": [
            {
                "name": name, "key": name, "buffers": buffers,
                "candidates": [{"schedule": step, "step": step, "symbols": []} for step in steps],
            }
            for name, steps in kernels.items()
        ],
    }  # fmt: skip
    text = json.dumps(manifest).encode()
    data = (folder / "fake.so").read_bytes() + text
    bundle = folder / "fake.tune"
    bundle.write_bytes(data + hashlib.sha256(data).hexdigest().encode() + struct.pack("<Q", len(text)) + MAGIC)
    return bundle


def test_gains_beyond_noise(tmp_path):
    """A single thread is timed by its own clock, and a gain of a thousandth is none."""
    bundle = make_bundle(tmp_path, {"same": "aj", "own clock": "ak"})
    process = run_tool("aot-tune", bundle, "--seconds=0.5")
    assert process.returncode == 0 and not process.stderr, process.stderr
    same, own = unseal_results(tmp_path / "fake.tune.results")["kernels"]
    assert same["best"] == 0 and same["candidates"][1]["ratio"] > 0.98
    assert own["best"] == 1 and 0.85 < own["candidates"][1]["ratio"] < 0.95


# A driver of a GPU whose memory and clock are the host's.
DRIVER = r"""
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int broken;

CUresult cuDeviceGetCount(int *count) { *count = 1; return 0; }
CUresult cuDeviceGetName(char *name, int length, CUdevice device) { (void)device; snprintf(name, length, "another GPU"); return 0; }
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
  return 0;
}
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) { *memory = (CUdeviceptr)malloc(bytes); return 0; }
CUresult cuMemFree_v2(CUdeviceptr memory) { free((void *)memory); return 0; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) { memcpy((void *)to, from, bytes); return 0; }
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) { (void)stream; memcpy(to, (void *)from, bytes); return 0; }
CUresult cuCtxSynchronize(void) { return broken ? 700 : 0; }
CUresult cuEventCreate(CUevent *event, unsigned flags) { (void)flags; *event = malloc(sizeof(struct timespec)); return 0; }
CUresult cuEventRecord(CUevent event, CUstream stream) { (void)stream; clock_gettime(CLOCK_THREAD_CPUTIME_ID, (struct timespec *)event); return 0; }
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  struct timespec *from = (struct timespec *)begin, *to = (struct timespec *)end;
  *milliseconds = (to->tv_sec - from->tv_sec) * 1e3f + (to->tv_nsec - from->tv_nsec) / 1e6f;
  return 0;
}
"""


def test_gpu_that_fails(tmp_path):
    """What breaks a GPU for its process is left out, whatever comes behind it is measured, and by the GPU's clock."""
    bundle = make_bundle(tmp_path, {"one": "anb", "first": "nb", "other": "ab"}, architecture="sm_90")
    functions = set(re.findall(r"^ +F\((\w+),", (ROOT / "runtime/cuda/driver.h").read_text(), re.MULTILINE))
    others = sorted(functions - set(re.findall(r"CUresult (\w+)", DRIVER)))
    assert "cuInit" in others
    (tmp_path / "driver.c").write_text(DRIVER)
    (tmp_path / "others.c").write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in others))
    command = ["cc", "-shared", "-fPIC", f"-I{ROOT / 'runtime/cuda'}", "-o", tmp_path / "driver.so", "driver.c", "others.c"]
    subprocess.run(command, check=True, cwd=tmp_path)
    process = run_tool("aot-tune", bundle, "--seconds=0.3", env={"KILN_CUDA_DRIVER": str(tmp_path / "driver.so")})
    assert process.returncode == 0 and not process.stderr, process.stderr
    results = unseal_results(tmp_path / "fake.tune.results")
    one, first, other = results["kernels"]
    assert results["device"] == "another GPU"
    assert one["candidates"][1]["failure"] == "it says no" and one["best"] == 2 and one["candidates"][2]["ratio"] < 0.4
    assert first["failure"] == "it says no" and first["best"] == 0
    assert other["best"] == 1 and other["candidates"][1]["ratio"] < 0.4


def test_runs_of_the_model_decide(tmp_path):
    """A schedule that is fastest alone, and slow where the kernel in front leaves the machine as it does, is not taken."""
    bundle = make_bundle(tmp_path, {"slow there": "alh", "in front": "m", "fast": "ab"}, sequence=[2, 1, 0, 2])
    process = run_tool("aot-tune", bundle, "--seconds=0.3")
    assert process.returncode == 0 and not process.stderr, process.stderr
    slow, front, fast = unseal_results(tmp_path / "fake.tune.results")["kernels"]
    assert (slow["best"], front["best"], fast["best"]) == (0, 0, 1)
    assert slow["candidates"][1]["ratio"] > 1.5 and fast["candidates"][1]["ratio"] < 0.5
    assert 1.9e-3 < fast["seconds"] < 3e-3  # of a launch
    refused = run_tool("aot-tune", make_bundle(tmp_path, {"one": "ab"}, sequence=[1]))
    assert refused.returncode == 1 and "there is no such kernel" in refused.stderr and refused.stderr.count("\n") == 1


def test_crashes_cost_the_candidate(tmp_path):
    bundle = make_bundle(tmp_path, {"one": "acbdefgh", "two": "ia", "three": "ah", "four": "acz"})
    process = run_tool("aot-tune", bundle, "--trial-seconds=1", "--seconds=0.2")
    assert process.returncode == 0 and not process.stderr, process.stderr
    one, two, three, four = unseal_results(tmp_path / "fake.tune.results")["kernels"]
    failures = {outcome["schedule"]: outcome.get("failure") for outcome in one["candidates"]}
    assert failures == {
        "a": None, "b": None, "c": "it crashes (Segmentation fault)", "d": "it takes too long", "e": "it ends the process",
        "f": "it says no", "g": "it computes something else", "h": None,
    }  # fmt: skip
    assert one["best"] == 2 and one["candidates"][2]["ratio"] < 0.5 and one["seconds"] > 1e-3
    assert two["failure"] == "it crashes (Aborted)" and two["best"] == 0
    assert three["best"] == 0 and "failure" not in three
    assert four["candidates"][1]["failure"] == "it crashes (Segmentation fault)" or "no kernel" in four.get("failure", "")
