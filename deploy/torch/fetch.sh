#!/bin/sh
# Prints the folder of PyTorch's headers and libraries that pairstream links against where it is not Debian's: `torch` of
# the wheel on PyPI. It fetches the wheel once into the user's cache, without the libraries of CUDA: neither linking nor
# tests on the processor want them.
#
#   TORCH=$(deploy/torch/fetch.sh)      TORCH_VERSION is the version, TORCH a folder that is there already
#
# ARCH is the architecture, as Debian calls it, of this machine by default.
set -eu
version=${TORCH_VERSION:-2.11.0}
case $version in # the CUDA of that PyTorch's wheel on PyPI
2.11.*) cuda=13.0 ;;
2.15.*) cuda=13.2 ;;
*) echo "torch: TORCH_VERSION is \"$version\", want 2.11.* or 2.15.*, whose CUDA is known here" >&2; exit 2 ;;
esac
host=$(dpkg --print-architecture)
: "${ARCH:=$host}"
case $ARCH in
amd64) machine=x86_64 suffix= ;;
arm64) machine=aarch64 suffix=-arm64 ;;
*) echo "torch: ARCH is \"$ARCH\", want amd64 or arm64" >&2; exit 2 ;;
esac

fetch() { # folder
	echo "torch: fetching PyTorch $version, 530 MB, into $1" >&2
	part=$1.part
	rm -rf "$part" && mkdir -p "$part"
	python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
		--platform manylinux_2_28_$machine --platform manylinux_2_25_$machine --platform manylinux_2_17_$machine --platform manylinux2014_$machine -d "$part" "torch==$version" "nvidia-cuda-cupti==$cuda.*" "nvidia-cuda-runtime==$cuda.*" >&2
	python3 - "$part" <<-'P'
	import glob, os, sys, zipfile
	folder = sys.argv[1]
	for wheel in glob.glob(folder + "/*.whl"):
	    with zipfile.ZipFile(wheel) as z:
	        for name in z.namelist():
	            base = os.path.basename(name)
	            if name.startswith("torch/include/") or name.startswith("torch/lib/lib") and base.startswith(("libtorch.so", "libtorch_cpu.so", "libc10.so", "libgomp.so", "libnvpl_", "libarm_compute")):
	                z.extract(name, folder)
	            elif base.startswith(("libcudart.so", "libcupti.so")):
	                os.makedirs(folder + "/torch/lib", exist_ok=True)
	                open(os.path.join(folder, "torch/lib", base), "wb").write(z.read(name))
	    os.remove(wheel)
	P
	# libtorch.so wants a libtorch_cuda.so to be there. An empty one has no CUDA.
	$machine-linux-gnu-gcc -shared -x c /dev/null -o "$part/torch/lib/libtorch_cuda.so"
	mv "$part" "$1"
}

if [ -z "${TORCH:-}" ]; then
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/pairstream/torch-$version$suffix
	[ -d "$cache" ] || { mkdir -p "$(dirname "$cache")" && fetch "$cache"; }
	TORCH=$cache/torch
fi
[ -f "$TORCH/lib/libtorch_cpu.so" ] || { echo "torch: no $TORCH/lib/libtorch_cpu.so: want TORCH=DIR/torch after pip install --target DIR torch" >&2; exit 2; }
cd "$TORCH" && pwd
