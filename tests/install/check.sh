#!/usr/bin/env bash
# check.sh BUILD SOURCE: installs a build, compiles the programs of examples/embedding against it as a stranger would,
# by CMake and by pkg-config, and runs them where there is no LLVM, no home and no store. With the control: a bundle in
# which one bit is flipped is not used.
set -euo pipefail

build="$1" source="$2"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
fail() { echo "check.sh: $*" >&2; exit 1; }
bare() { env -i PATH=/usr/bin:/bin WEFT_LLVM=/nowhere/libLLVM.so "$@"; }

cmake --install "$build" --prefix "$work/prefix" > "$work/install.log" || { cat "$work/install.log" >&2; exit 1; }
for file in include/weft/c.h include/weft/weft.h bin/weft bin/weft-compile share/man/man1/weft.1 share/doc/weft/LICENSE \
  share/doc/weft/examples/window.weft share/bash-completion/completions/weft share/zsh/site-functions/_weft \
  share/fish/vendor_completions.d/weft.fish; do
  [ -e "$work/prefix/$file" ] || fail "$file is not installed"
done
[ "$("$work/prefix/bin/weft" --version)" = "$("$build/weft" --version)" ] || fail "another weft was installed"

cmake -S "$source/examples/embedding" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/configure.log" ||
  { cat "$work/configure.log" >&2; exit 1; }
XDG_CACHE_HOME="$work/cache" cmake --build "$work/build" > "$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
again="$(XDG_CACHE_HOME="$work/cache" cmake --build "$work/build")"
case "$again" in *"no work to do"*) ;; *) fail "a second build does something: $again" ;; esac

cd "$work"
out="$(bare "$work/build/embedding")" || fail "the C++ example fails: $out"
case "$out" in "kernel from bundle for cpu:"*) ;; *) fail "the kernel is not the bundle's: $out" ;; esac
echo "$out"

bundle="$work/build/embedding_kernels.weft/embedding_kernels.wfb"
libdir="$(dirname "$(find "$work/prefix" -name libweft.so)")"
bare "$work/build/embedding_c" "$bundle"

export PKG_CONFIG_PATH="$libdir/pkgconfig"
cc -std=c99 -Wall -Wextra -Werror -pedantic "$source/examples/embedding/main.c" -o "$work/by_pkg_config" \
  $(pkg-config --cflags --libs weft) -lm
bare LD_LIBRARY_PATH="$libdir" "$work/by_pkg_config" "$bundle"

# A model that is trained: its loss falls, its gradient is the loss's slope. The control: without attention's gradient it
# is not.
train() {
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/configure.log" &&
    cmake --build "$2" > "$work/build.log" || { cat "$work/configure.log" "$work/build.log" >&2; exit 1; }
  XDG_CACHE_HOME="$work/cache" "$2/training" --steps 20 "$source"/docs/*.md
}
out="$(train "$source/examples/training" "$work/training")" || fail "the model does not learn: $out"
echo "$out"
cp -r "$source/examples/training" spoiled
sed -i '/args.dk = part(1);/s/part(1)/part(0)/; /args.dq = part(0);/d' spoiled/attention.cpp
if out="$(train spoiled "$work/spoiled_build")"; then fail "a wrong gradient is not seen: $out"; fi

# The control: one bit, anywhere.
size="$(stat -c %s "$bundle")"
for part in 1 2 3 4 5 6 7 8; do
  at=$((size * part / 8))
  cp "$bundle" bad.wfb
  byte="$(od -An -tu1 -j $((at - 1)) -N 1 "$bundle" | tr -d ' ')"
  # shellcheck disable=SC2059
  printf "\\$(printf '%03o' $((byte ^ 1)))" | dd of=bad.wfb bs=1 seek=$((at - 1)) conv=notrunc status=none
  if "$work/prefix/bin/weft" bundle verify bad.wfb > verify.log 2>&1; then fail "bit 0 of byte $at is flipped, and nothing is found"; fi
done
cp "$bundle" bad.wfb
"$work/prefix/bin/weft" bundle verify bad.wfb > verify.log || fail "a sound bundle is refused: $(cat verify.log)"
echo "flipped bits are found"
