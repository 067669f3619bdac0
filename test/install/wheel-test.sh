#!/usr/bin/env bash
# Builds the wheel twice, asks auditwheel which systems it suits, and installs it where there is no compiler, no LLVM and no PyTorch:
# a root folder with Python, numpy and pip alone. A model is compiled and run there, by the tools and from Python.
#   wheel-test.sh PYTHON
set -euo pipefail
python=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf 'wheel-test: %s\n' "$*" >&2; exit 1; }

"$source/scripts/wheel" --out "$folder" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "cannot build the wheel"; }
wheel=$(echo "$folder"/kiln-*.whl)
"$source/test/install/otherwise.sh" "$source/scripts/wheel" --out "$folder/again" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "cannot build the wheel again"; }
cmp "$wheel" "$folder"/again/kiln-*.whl || fail "the same tree gives another wheel"
rm -r "$folder/again"
megabytes=$(($(stat -c %s "$wheel") / 1000000))
[ "$megabytes" -le 90 ] || fail "the wheel has $megabytes MB"
"$python" -m auditwheel show "$wheel" >"$folder/audit"
glibc=$(sed -n 's/.*platform tag: "manylinux_2_\([0-9]*\)_x86_64".*/\1/p' "$folder/audit")
[ "${glibc:-99}" -le 28 ] || { cat "$folder/audit"; fail "the tools need a newer glibc than the wheel's name says"; }

# Python as it is installed here, with the libraries that it and numpy need.
root=$folder/root
copy() { for file in "$@"; do mkdir -p "$root$(dirname "$file")"; cp -rL "$file" "$root$file"; done; }
mapfile -t paths < <("$python" - <<'EOF'
import sys, sysconfig
import numpy
print(sys._base_executable, sysconfig.get_path("stdlib"), sysconfig.get_path("platlib"), sep="\n")
EOF
)
interpreter=${paths[0]} stdlib=${paths[1]} packages=${paths[2]}
real=$(readlink -f "$interpreter")
mkdir -p "$root$stdlib" "$root/tmp"
copy "$real"
tar -C "$stdlib" --exclude=site-packages --exclude=dist-packages --exclude=test --exclude=__pycache__ --exclude='config-*' -c . | tar -C "$root$stdlib" -x
# A namespace of its own, in which /proc can be seen inside, too. A user who is not root is root there.
enter=("$(command -v unshare)" --mount)
[ "$(id -u)" = 0 ] || enter+=(--map-root-user)
mkdir "$root/proc"
without_proc() { "${enter[@]}" sh -c 'exec env -i PATH=/app/bin HOME=/tmp "$(command -v chroot)" "$0" "$@"' "$root" "$@"; }
inside() { "${enter[@]}" sh -c 'mount --rbind /proc "$0/proc" && exec env -i PATH=/app/bin HOME=/tmp "$(command -v chroot)" "$0" "$@"' "$root" "$@"; }

find "$root" "$packages/numpy" -type f \( -name '*.so' -o -name "$(basename "$real")" \) -exec ldd {} + |
  sed -n 's/.*[[:space:]]\(\/[^ ]*\) (0x.*/\1/p' | sort -u | { grep -v "^$packages/" || true; } >"$folder/libraries"
libc=$(grep "/libc.so.6$" "$folder/libraries")
printf "%s\n" "${libc%libc.so.6}"{libdl.so.2,libpthread.so.0} >>"$folder/libraries" # empty ones, of glibc itself
while read -r library; do
  copy "$library"
done <"$folder/libraries"
inside "$real" -m venv --without-pip /app || fail "Python does not start in the empty root"
site=$(echo "$root"/app/lib/python3*/site-packages)
cp -r "$packages"/numpy* "$packages"/pip "$packages"/pip-* "$site"
for name in clang gcc cc ld.lld libLLVM libMLIR libzip torch; do
  ! find "$root" -name "$name" -o -name "$name.*" -o -name "$name-*" | grep . || fail "there is a $name in the empty root"
done

"$python" - "$root/tmp/model.pt2" "$root/tmp/inputs.npz" "$root/tmp/expected.npy" <<'EOF'
import sys
import numpy, torch
module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5)).eval()
x = torch.randn(2, 3, 8, 8)
batch = torch.export.Dim("batch", min=1)
torch.export.save(torch.export.export(module, (x,), dynamic_shapes=({0: batch},)), sys.argv[1])
numpy.savez(sys.argv[2], **{"0": x.numpy()})
numpy.save(sys.argv[3], module(x).detach().numpy())
EOF
start=$SECONDS
cp "$wheel" "$root/tmp"
inside python -m pip install --quiet --no-index --disable-pip-version-check "/tmp/$(basename "$wheel")" || fail "pip does not install the wheel"
! without_proc aot-compile /tmp/model.pt2 -o /tmp/model.so 2>"$folder/log" || fail "the linker needs no /proc"
grep -q '/proc, which is not mounted' "$folder/log" || { cat "$folder/log"; fail "a missing /proc is not named"; }
inside aot-compile /tmp/model.pt2 -o /tmp/model.so || fail "the installed compiler does not compile"
inside aot-run /tmp/model.so --inputs /tmp/inputs.npz --outputs /tmp/outputs.npz >/dev/null || fail "the model does not run"
[ $((SECONDS - start)) -le 60 ] || fail "from pip install to the first run it takes $((SECONDS - start)) s"
inside kiln-opt --version >/dev/null || fail "the installed kiln-opt does not start"
extern_abi=$(sed -n 's/^#define KILN_EXTERN_ABI //p' "$source/runtime/extern.h")
inside python - "$extern_abi" <<'EOF'
import os, sys
import numpy, kiln
assert "torch" not in sys.modules
x = numpy.load("/tmp/inputs.npz")["0"]
expected = numpy.load("/tmp/expected.npy")
assert numpy.allclose(numpy.load("/tmp/outputs.npz")["0"], expected, rtol=1e-4, atol=1e-5)
for model in kiln.load("/tmp/model.so"), kiln.compile("/tmp/model.pt2"), kiln.compile("/tmp/model.pt2", cpu="x86-64-v3"):
    assert numpy.allclose(model(x), expected, rtol=1e-4, atol=1e-5)
    assert model(x[:1]).shape == (1, 5)
assert os.path.exists(kiln.get_include() + "/kiln-c/model.h")
# The libraries that models load; they catch what they throw.
import ctypes
for name, callee, said in (
    ("libkiln_cublas.so", b"matmul", b"cannot load cu"),
    ("libkiln_cudnn.so", b"convolution", b"cannot load cu"),
    ("libkiln_collectives.so", b"gather", b"libkiln_collectives.so has no gather"),
):
    library = ctypes.CDLL(os.path.join(kiln.__path__[0], "lib", name))
    library.kiln_get_extern_library.restype = ctypes.POINTER(ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_size_t))
    call, made, message = (ctypes.c_char_p * 12)(callee, None, None, None, bytes(8)), ctypes.c_void_p(), ctypes.create_string_buffer(400)
    assert library.kiln_get_extern_library(int(sys.argv[1]))[0](call, ctypes.byref(made), message, 400) == 3
    assert message.value.startswith(said), message.value
EOF
