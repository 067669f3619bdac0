#!/usr/bin/env bash
# Makes the Debian packages of a build and installs them into a root folder, whose database says that what this machine has is there,
# too: dpkg checks what they depend on. With --prefix instead of a dpkg, a plain installation does.
#   packages.sh BUILD ROOT [--only-make]   (prints the prefix)
set -euo pipefail
build=$1 root=$2
fail() { cat "$root/log" >&2; printf 'packages: %s\n' "$*" >&2; exit 1; }

mkdir -p "$root"
if ! command -v dpkg-shlibdeps >/dev/null; then
  cmake --install "$build" --prefix "$root/usr" >"$root/log" || fail "cannot install"
  echo "$root/usr"
  exit
fi
rm -rf "$root/packages"
export SOURCE_DATE_EPOCH=315532800 PERL_HASH_SEED=0 # as scripts/package does
(umask 077 && cpack --config "$build/CPackConfig.cmake" -B "$root/packages" -D CPACK_DEBIAN_COMPRESSION_TYPE=none) >"$root/log" 2>&1 || fail "cannot make packages"
rm -rf "$root/packages/_CPack_Packages"
[ "${3:-}" != --only-make ] || exit 0
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
cp /var/lib/dpkg/status "$root/var/lib/dpkg"
(cd /var/lib/dpkg/info && printf '%s\0' *.list) | (cd "$root/var/lib/dpkg/info" && xargs -0 touch)
touch "$root/var/lib/dpkg/available"
dpkg --root="$root" --force-not-root --force-bad-path --no-triggers --log=/dev/null --install "$root"/packages/*.deb >"$root/log" 2>&1 || fail "dpkg does not install"
if find "$root/usr" ! -perm -go=r | grep . >"$root/log"; then
  fail "only this user may read what is installed"
fi
for package in kiln libkiln-dev libkiln-cuda libkiln-collectives; do
  dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Status}' "$package" | grep -q 'ok installed' || fail "$package is not installed"
done
for library in libmlir-22 libzip4 libc6; do
  dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Depends}' kiln | grep -q "$library" || fail "kiln does not depend on $library"
done
echo "$root/usr"
