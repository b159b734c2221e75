#!/usr/bin/env bash
# portable.sh FILE: does a program run on Ubuntu 22.04 and later with nothing installed? It must be below 40 MB, need
# no library but the C library's, and no symbol of it that is newer than 2.35. A library may also need libzstd, which
# dpkg brings.
set -euo pipefail

file="$1"
failed=0
complain() { echo "portable.sh: $file $*" >&2; failed=1; }

bytes="$(stat -Lc %s "$file")"
[ "$bytes" -lt 40000000 ] || complain "has $bytes bytes"

needed="$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
[ -n "$needed" ] || complain "needs no library at all: is it a program?"
for library in $needed; do
  case "$library" in
    libc.so.6 | libm.so.6 | ld-linux-x86-64.so.2) ;;
    libzstd.so.1) [[ "$file" == *.so ]] || complain "needs $library" ;;
    *) complain "needs $library" ;;
  esac
done

newest="$(readelf -V "$file" | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1)"
[ -n "$newest" ] || complain "names no version of the C library"
[ "$(printf '%s\nGLIBC_2.35\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.35 ] || {
  complain "needs $newest:"
  readelf --dyn-syms -W "$file" | grep -F "@$newest" >&2 || true
}

[ "$failed" = 0 ] && echo "$file: $bytes bytes, needs $(echo $needed), $newest"
exit "$failed"
