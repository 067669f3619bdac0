#!/usr/bin/env bash
# Runs a command where much is different: clock, time zone, locale, umask, home and temporary folder, number of cores, addresses,
# the order of Python's sets.
#   otherwise.sh COMMAND...
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/home" "$folder/another folder for what is temporary"

# A year and a day later.
cat >"$folder/clock.c" <<'EOF'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
enum { LATER = 366 * 86400 };
int clock_gettime(clockid_t id, struct timespec *out) {
  int status = (int)syscall(SYS_clock_gettime, id, out);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
    out->tv_sec += LATER;
  return status;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out)
    *out = now.tv_sec;
  return now.tv_sec;
}
EOF
cc -shared -fPIC -o "$folder/clock.so" "$folder/clock.c"
command=("$@")
if command -v setarch >/dev/null; then
  command=(setarch --addr-no-randomize "${command[@]}")
fi
if command -v taskset >/dev/null; then
  command=(taskset --cpu-list "$(taskset --cpu-list --pid $$ | grep -o '[0-9]*$')" "${command[@]}")
fi
umask 027
env -u SOURCE_DATE_EPOCH LD_PRELOAD="$folder/clock.so" TZ=Asia/Kathmandu LC_ALL=tr_TR.UTF-8 LANG=de_DE.UTF-8 HOME="$folder/home" \
  TMPDIR="$folder/another folder for what is temporary" PYTHONHASHSEED=17 USER=other LOGNAME=other "${command[@]}"
