#!/bin/sh
# Builds the bench, the tests of what computes with tensors, and pairstream itself with its scenarios, against PyTorch's
# libtorch for CUDA, on a machine without a GPU. It packs them for one that has a GPU and the same PyTorch. `make pack-gpu` calls it; docs/benchmarks.md tells how
# to run what it makes.
#
#   pack.sh FOLDER    writes tensors.tar.xz, services.tar.xz, run.sh and probe.py into FOLDER
#
# TORCH names the folder of an installed PyTorch (DIR/torch after `pip install --target DIR torch`). Without it the wheel is
# fetched once into the user's cache, without the libraries of CUDA: neither linking nor tests on the processor want them.
set -eu
out=${1:?pack.sh wants the folder to write to}
limit=$((60 << 20)) # bytes of an archive, so that it is quickly copied
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
packages="internal/model/torch internal/neighbors/knn/device internal/model/model internal/model/ranks/nccl discriminator trainer indexer"

TORCH=$(deploy/torch/fetch.sh)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A folder that has the archive and not the shared library: the linker then takes libturbojpeg in.
ln -s "/usr/lib/$(gcc -dumpmachine)/libturbojpeg.a" "$work/libturbojpeg.a"

. deploy/torch/flags.sh
export GOFLAGS="-buildvcs=false -trimpath"
flags="-s -w -extldflags=-L$work"
stage=$work/tensors services=$work/services
mkdir -p "$stage/bin" "$stage/lib" "$stage/tree/testdata" "$services/bin" "$services/tree/services/pairstream"
echo "pack: building the bench, the tests of $packages, and pairstream"
go -C lab build -ldflags "$flags" -o "$stage/bin/bench" ./bench
for package in $packages; do
	go test -ldflags "$flags" -c -o "$stage/bin/$(basename "$package").test" "./$package"
	mkdir -p "$stage/tree/$package"
	[ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$stage/tree/$package/"
done
go build -ldflags "$flags" -o "$services/bin/pairstream-tensors" ./services/pairstream
go test -ldflags "$flags" -c -o "$services/bin/pairstream.test" ./services/pairstream
cp go.mod "$stage/tree/" && cp -r testdata/golden testdata/*.safetensors "$stage/tree/testdata/"
mkdir -p "$stage/tree/internal/content/token" && cp -r internal/content/token/testdata "$stage/tree/internal/content/token/" # the model's tests read SigLIP's words
for package in $packages; do echo "$package"; done >"$stage/packages"

# Everything that a program needs is libc's, libtorch's, or packed.
for lib in libopenblas.so.0 libgfortran.so.5 libquadmath.so.0; do
	cp -L "$(ldconfig -p | awk -v l="$lib" '$1 == l && /x86-64/ {print $NF; exit}')" "$stage/lib/$lib"
done
for bin in "$stage"/bin/* "$services"/bin/*; do
	for need in $(readelf -d "$bin" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
		case $need in
		libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libresolv.so.2 | ld-linux-x86-64.so.2 | libstdc++.so.6 | libgcc_s.so.1 | libgomp.so.1) ;;
		libtorch.so | libtorch_cpu.so | libc10.so) ;;
		*) [ -f "$stage/lib/$need" ] || { echo "pack: $(basename "$bin") needs $need, which is neither in PyTorch nor packed" >&2; exit 1; } ;;
		esac
	done
	worst=$(readelf -V "$bin" | grep -o 'GLIBC_2\.[0-9]*' | sort -t. -k2 -n | tail -1)
	case $worst in GLIBC_2.[0-9] | GLIBC_2.[12][0-9] | GLIBC_2.3[0-9]) ;; *) echo "pack: $(basename "$bin") needs $worst, want at most GLIBC_2.39" >&2; exit 1 ;; esac
done
{ git rev-parse --short HEAD && { git diff --quiet HEAD || echo +; }; } 2>/dev/null | tr -d '\n' >"$stage/revision"

# The programs share most of their bytes, and a window of 128 MiB sees it.
. deploy/own.sh
own "$out" "make pack-gpu"
cp "$here/run.sh" "$here/probe.py" "$out/"
for part in tensors services; do
	tar -C "$work/$part" --sort=name --owner=0 --group=0 -cf - . | xz -T1 --lzma2=preset="${PRESET:-6}",dict=128MiB >"$out/$part.tar.xz"
	size=$(stat -c %s "$out/$part.tar.xz")
	[ "$size" -le "$limit" ] || { echo "pack: $part.tar.xz has $size bytes, want at most $limit" >&2; exit 1; }
	echo "pack: $out/$part.tar.xz has $size bytes"
done
echo "pack: copy $out to the machine with the GPU, and run there: sh run.sh check"
