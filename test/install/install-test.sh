#!/usr/bin/env bash
# Uses an installed Kiln, from its Debian packages where there is a dpkg, as strangers do: a C program with the headers of models alone, and C++
# programs that find the package; one runs a pass, the other compiles a model.
#   install-test.sh BUILD LINK_TEST CC CXX PYTHON
set -euo pipefail
build=$1 link=$2 cc=$3 cxx=$4 python=$5
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
fail() { printf 'install-test: %s\n' "$*" >&2; exit 1; }

kiln=$("$here/packages.sh" "$build" "$prefix/root")
if [ -d "$prefix/root/packages" ]; then
  "$here/otherwise.sh" "$here/packages.sh" "$build" "$prefix/again" --only-make
  for package in kiln libkiln-dev libkiln-cuda libkiln-collectives; do
    cmp "$prefix"/root/packages/${package}_*.deb "$prefix"/again/packages/${package}_*.deb || fail "the same tree gives another package"
  done
  rm -r "$prefix/again" "$prefix/root/packages"
fi
"$kiln/bin/aot-compile" --version >"$prefix/version"
grep -q "$(cat "$here/../../VERSION")" "$prefix/version" || fail "aot-compile has the version $(cat "$prefix/version")"

# The headers for C stand alone: no other folder of Kiln's is searched.
mkdir "$prefix/c"
cp -r "$kiln/include/kiln-c" "$prefix/c"
"$cc" -std=c99 -Wall -Wextra -Werror -I "$prefix/c" "$here/user/use-model.c" -o "$prefix/use-model" -ldl
"$link" --link "$build/test/runtime/rows.o" "$prefix/rows.so"
"$prefix/use-model" "$prefix/rows.so" | grep -q '"inputs"' || fail "the model does not say what it is"
"$kiln/bin/aot-run" "$prefix/rows.so" --info | grep -q '"inputs"' || fail "the installed aot-run does not read the model"

# The package, with the library that all others are behind.
cmake -S "$here/user" -B "$prefix/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_PREFIX_PATH="$kiln" >"$prefix/log" 2>&1 || { cat "$prefix/log"; fail "cannot find the package"; }
cmake --build "$prefix/build" >"$prefix/log" 2>&1 || { cat "$prefix/log"; fail "cannot build a user"; }
"$prefix/build/run-pass" "$here/user/bounds.mlir" >"$prefix/out.mlir"
grep -q 'kernel.inside' "$here/user/bounds.mlir" || fail "bounds.mlir has no check to remove"
! grep -q 'kernel.inside' "$prefix/out.mlir" || { cat "$prefix/out.mlir"; fail "the pass did not remove the check"; }
grep -q 'kernel.read' "$prefix/out.mlir" || { cat "$prefix/out.mlir"; fail "the pass removed the read"; }

"$python" - "$prefix/model.pt2" <<'EOF'
import sys, torch
module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
torch.export.save(torch.export.export(module, (torch.ones(1, 3, 8, 8),)), sys.argv[1])
EOF
"$prefix/build/compile-model" "$prefix/model.pt2" "$prefix/model.so" || fail "a program that registers no options cannot compile"
"$prefix/use-model" "$prefix/model.so" | grep -q '"inputs"' || fail "the compiled model does not say what it is"

# A host that asks pkg-config where the header is.
flags=$(PKG_CONFIG_PATH=$kiln/share/pkgconfig pkg-config --cflags --libs kiln) || fail "pkg-config does not find the package"
read -ra flags <<<"$flags"
"$cc" -std=c11 -Wall -Wextra -Werror "$here/../../examples/hosts/c/main.c" "${flags[@]}" -o "$prefix/host"
[ "$("$prefix/host" "$prefix/model.so" | wc -l)" = 5 ] || fail "the host does not print the model's scores"
