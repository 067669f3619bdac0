#!/usr/bin/env bash
# Uses an installed Kiln as strangers do: a C program with the headers of models alone, and C++
# programs that find the package; one runs a pass, the other compiles a model.
#   install-test.sh BUILD LINK_TEST CC CXX PYTHON
set -euo pipefail
build=$1 link=$2 cc=$3 cxx=$4 python=$5
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
fail() { printf 'install-test: %s\n' "$*" >&2; exit 1; }

cmake --install "$build" --prefix "$prefix/kiln" >"$prefix/log" || { cat "$prefix/log"; fail "cannot install"; }
"$prefix/kiln/bin/aot-compile" --version >"$prefix/version"
grep -q "$(cat "$here/../../VERSION")" "$prefix/version" || fail "aot-compile has the version $(cat "$prefix/version")"

# The headers for C stand alone: no other folder of Kiln's is searched.
mkdir "$prefix/c"
cp -r "$prefix/kiln/include/kiln-c" "$prefix/c"
"$cc" -std=c99 -Wall -Wextra -Werror -I "$prefix/c" "$here/user/use-model.c" -o "$prefix/use-model" -ldl
"$link" --link "$build/test/runtime/rows.o" "$prefix/rows.so"
"$prefix/use-model" "$prefix/rows.so" | grep -q '"inputs"' || fail "the model does not say what it is"
"$prefix/kiln/bin/aot-run" "$prefix/rows.so" --info | grep -q '"inputs"' || fail "the installed aot-run does not read the model"

# The package, with the library that all others are behind.
cmake -S "$here/user" -B "$prefix/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_PREFIX_PATH="$prefix/kiln" >"$prefix/log" 2>&1 || { cat "$prefix/log"; fail "cannot find the package"; }
cmake --build "$prefix/build" >"$prefix/log" 2>&1 || { cat "$prefix/log"; fail "cannot build a user"; }
"$prefix/build/run-pass" "$here/user/bounds.mlir" >"$prefix/out.mlir"
grep -q 'kernel.inside' "$here/user/bounds.mlir" || fail "bounds.mlir has no check to remove"
! grep -q 'kernel.inside' "$prefix/out.mlir" || { cat "$prefix/out.mlir"; fail "the pass did not remove the check"; }
grep -q 'kernel.read' "$prefix/out.mlir" || { cat "$prefix/out.mlir"; fail "the pass removed the read"; }

"$python" - "$prefix/model.pt2" <<'EOF'
import sys, torch
torch.export.save(torch.export.export(torch.nn.Linear(4, 3), (torch.ones(2, 4),)), sys.argv[1])
EOF
"$prefix/build/compile-model" "$prefix/model.pt2" "$prefix/model.so" || fail "a program that registers no options cannot compile"
"$prefix/use-model" "$prefix/model.so" | grep -q '"inputs"' || fail "the compiled model does not say what it is"
