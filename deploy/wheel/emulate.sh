#!/bin/bash
# Runs what was built for another architecture on this machine, under qemu: the wheel, and the programs of the tar and of the image
# where FOLDER has them. PyTorch is the part of PyPI's wheel that programs for the processor load.
#
#   emulate.sh arm64 FOLDER WORK    FOLDER has the wheel; WORK is made, and removed at the end
#
# TORCH_THREADS is 1 unless it is set: qemu gains nothing from more.
set -euo pipefail
arch=$1 dist=$(realpath "$2") work=$3
cd "$(dirname "$0")/../.."
. deploy/own.sh
own "$work" "make test-$arch" && work=$(cd "$work" && pwd)
trap 'rm -rf "$work"' EXIT
die() { echo "test-$arch: $*" >&2; exit 1; }
say() { printf 'test-%s: %4d s  %s\n' "$arch" $SECONDS "$*"; }
case $arch in
arm64) machine=aarch64 ;;
*) die "want arm64, the one architecture that is built for another machine" ;;
esac
command -v qemu-$machine-static >/dev/null || die "no qemu-$machine-static: deploy/setup.sh cross"
root=$(deploy/release/sysroot.sh "$arch")
torch=$(ARCH=$arch deploy/torch/fetch.sh)
emulated=(qemu-$machine-static -L "$root")
export TORCH_THREADS=${TORCH_THREADS:-1} OMP_NUM_THREADS=1

# pip takes the wheel for what it says that it is.
site=$work/site
python3 -m pip install -q --root-user-action=ignore --disable-pip-version-check --no-deps --no-index --only-binary=:all: --platform manylinux_2_28_$machine --platform manylinux_2_17_$machine \
	--target "$site" "$dist"/pairstream-*_$machine.whl "$dist"/pairstream_tensors-*_$machine.whl
mkdir "$site/torch" && ln -s "$torch/lib" "$site/torch/lib"
# qemu starts no second program, so what computes with tensors is started by its own name.
program=$site/pairstream/_bin/pairstream tensors=$site/pairstream_tensors/pairstream-tensors
emulated+=(-E "LD_LIBRARY_PATH=$site/pairstream_tensors/torch-2.11")

said=$("${emulated[@]}" "$tensors" --version)
say "$said"
for want in "linux/$arch" "libtorch 2.11." "device cpu)"; do
	[[ $said == *"$want"* ]] || die "--version says: $said; want $want in it"
done
settings=$("${emulated[@]}" "$tensors" settings)
[[ $settings == *ENCODER_CHECKPOINT* ]] || die "settings does not list ENCODER_CHECKPOINT"
say "$(wc -l <<<"$settings") lines of settings"

cd "$work"
"${emulated[@]}" "$program" synth scenes --scenes 200 --seed 3 >/dev/null
say "scenes are drawn"
"${emulated[@]}" "$tensors" bootstrap --steps 2 --batch 8 --holdout 20 --out first.safetensors scenes >log 2>&1 || { tail -n 20 log; die "training failed"; }
step=$(grep '^step  *2 of 2  loss [0-9]' log) || { tail -n 20 log; die "training printed no second step"; }
say "$step"
"${emulated[@]}" "$tensors" eval --checkpoint first.safetensors --holdout 20 scenes >log 2>&1 || { tail -n 20 log; die "measuring failed"; }
say "$(tail -n 1 log)"

tar=$(echo "$dist"/pairstream-*-linux-"$arch".tar.gz)
if [ -f "$tar" ]; then
	mkdir programs && tar -C programs --strip-components=1 -xzf "$tar"
	said=$("${emulated[@]}" programs/bin/pairstream-tensors --version)
	[[ $said == *"linux/$arch, libtorch 1.13."* ]] || die "the program of the tar says: $said"
	say "$said"
	said=$("${emulated[@]}" programs/bin/pairstream --version)
	[[ $said == *"linux/$arch, tensors by pairstream-tensors"* ]] || die "the static program says: $said"
	say "$said"
fi

image=$(echo "$dist"/pairstream-*-image-"$arch".tar)
if [ -f "$image" ]; then
	mkdir layout rootfs && tar -C layout -xf "$image"
	for layer in $(python3 -c 'import json; print(*json.load(open("layout/manifest.json"))[0]["Layers"])'); do
		tar -C rootfs -xzf "layout/$layer"
	done
	# Libraries come from the image alone.
	for program in pairstream pairstream-tensors grouper; do
		said=$(qemu-$machine-static -L rootfs "rootfs/usr/local/bin/$program" --version)
		[[ $said == *"linux/$arch"* ]] || die "$program of the image says: $said"
		say "the image: $said"
	done
fi
