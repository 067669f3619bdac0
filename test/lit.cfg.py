"""lit: every .mlir file under test/ is a test of the tools in build/bin."""

import os
import subprocess

import lit.formats

config.name = "kiln"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "e2e", "generator", "install", "runtime", "unit"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.kiln_binary_dir, "test")

for folder in (config.llvm_tools_dir, config.kiln_tools_dir):
    config.environment["PATH"] = os.pathsep.join((folder, config.environment["PATH"]))
config.substitutions.append(("%extern_test", os.path.join(config.kiln_binary_dir, "test", "Extern", "extern-test.so")))
# One caret of context is enough, and colours would break FileCheck.
config.environment["FILECHECK_OPTS"] = "--dump-input-filter=error"
# LDBG() of passes; release builds have none.
if (
    "--debug-only"
    in subprocess.run([os.path.join(config.kiln_tools_dir, "kiln-opt"), "--help-hidden"], capture_output=True, text=True).stdout
):
    config.available_features.add("debug-lines")
if counters := os.environ.get("LLVM_PROFILE_FILE"):  # scripts/coverage
    config.environment["LLVM_PROFILE_FILE"] = counters
if cpu := os.environ.get("KILN_TEST_CPU"):  # what `native` is short for
    config.environment["KILN_TEST_CPU"] = cpu
