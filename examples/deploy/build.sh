#!/bin/sh
# Fills a folder with all that the last stage of the Dockerfile holds: the compiled model, the server, and the C library that both need.
#   build.sh MODEL.pt2 FOLDER [OPTIONS of aot-compile]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
model=$1 image=$2
shift 2

mkdir -p "$image"
aot-compile "$model" -o "$image/model.so" "$@"
include=${KILN_INCLUDE:-$(python3 -c 'import kiln; print(kiln.get_include())')}
cc -O2 -I "$include" "$here/server.c" -o "$image/server" -ldl
ldd "$image/server" "$image/model.so" | sed -n 's/.*[[:space:]]\(\/[^ ]*\) (0x.*/\1/p' | sort -u | while read -r library; do
  mkdir -p "$image$(dirname "$library")"
  cp -L "$library" "$image$library"
done
