#!/bin/sh
# Compiles the C++ part of what calls libtorch, for the PyTorch in the folder $TORCH, and prints the folder of its objects. They are kept
# in the user's cache under a sum of sources, headers' version and compiler: libtorch's headers take minutes to read.
#
#   TORCH=DIR/torch OBJECTS=$(deploy/torch/bindings.sh)      ARCH is the architecture, as Debian calls it
set -eu
cd "$(dirname "$0")/../.."
. deploy/release/target.sh
version=$(sed -n 's/^#define TORCH_VERSION_[MP][A-Z]* \([0-9]*\)$/\1/p' "$TORCH/include/torch/headeronly/version.h" | paste -sd.)
standard=c++17
! grep -q '__cplusplus < 202002L' "$TORCH/include/ATen/ATen.h" || standard=c++20
compiler="$triple-g++ ${debian:+--sysroot=$debian}"
sources="internal/model/torch/native.cc internal/model/torch/script.cc internal/model/ranks/nccl/nccl.cc"
flags="-c -fPIC -O3 -DNDEBUG -std=$standard"
sum=$({ cat internal/model/torch/*.cc internal/model/torch/*.h* internal/model/ranks/nccl/*.cc internal/model/ranks/nccl/*.h*; echo "$version $compiler $flags"; $compiler --version; } | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pairstream/bindings-$ARCH-$sum
if [ ! -d "$cache" ]; then
	echo "torch: compiling the bindings for PyTorch $version" >&2
	part=$(mktemp -d "$cache.XXXX")
	for source in $sources; do
		# shellcheck disable=SC2086 # words
		$compiler $flags -ffile-prefix-map="$TORCH=/torch" ${debian:+-ffile-prefix-map="$debian="} -I"$TORCH/include" -I"$TORCH/include/torch/csrc/api/include" "$source" -o "$part/$(basename "$source" .cc).o" >&2
	done
	mv -T "$part" "$cache" 2>/dev/null || rm -rf "$part" # another process was first
fi
echo "$cache"
