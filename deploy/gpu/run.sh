#!/bin/sh
# Unpacks what pack.sh made, on a machine with a GPU, and runs parts of it within a time limit. It needs PyTorch 2.11 in
# python3, glibc 2.36 or later, and nothing else. Figures and logs go to $OUT (gpu-out). Only ranks and demo need
# services.tar.xz.
#
#   sh run.sh check            do the programs load, and do they find the GPU? half a minute
#   sh run.sh probe            the device's ceilings, and what single operations take there: two minutes
#   sh run.sh cpu              the tests on the processor; needs no GPU
#   sh run.sh tests            the tests on the GPU
#   sh run.sh ranks            trainers of one model, several on one GPU, joined by NCCL: the weights of one trainer
#   sh run.sh demo             the whole pipeline on the GPU, three times, and what it has taught
#   sh run.sh models           the bench's rows of models: training, Con-D, encoder
#   sh run.sh group            the bench's group of five million pairs, once: most of ten minutes
#   sh run.sh rows NAME,NAME   any rows
#
# Several at once: sh run.sh check+probe+models. LIMIT is the seconds for all of them (570), TURNS how often a row is
# measured, PACKAGES which tests run (all), DEVICE the GPU (cuda).
set -u
what=${1:-check}
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$PWD/gpu-out}
limit=${LIMIT:-570}
device=${DEVICE:-cuda}
started=$(date +%s)
mkdir -p "$out" && out=$(cd "$out" && pwd)
failed=0

left() { echo $((limit - $(date +%s) + started)); }
within() { # seconds at most, command...: not beyond the limit
	most=$1
	shift
	rest=$(left)
	[ "$rest" -ge "$most" ] || most=$rest
	[ "$most" -gt 5 ] || { echo "run: no time left for $*" >&2; return 124; }
	timeout -k 5 "$most" "$@"
}

dir=${UNPACKED:-$(mktemp -d)}
[ -n "${UNPACKED:-}" ] || trap 'rm -rf "$dir"' EXIT
if [ ! -f "$dir/revision" ]; then
	mkdir -p "$dir"
	for archive in "$here"/*.tar.xz; do
		python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$archive" "$dir" || exit 1
	done
	echo "run: unpacked after $(($(date +%s) - started)) s"
fi
# libtorch is where python3 has it, and finds CUDA's libraries by itself. Packed libraries come last.
torch=${TORCH_LIB:-$(python3 -c 'import importlib.util as u, os; print(os.path.join(os.path.dirname(u.find_spec("torch").origin), "lib"))')} || {
	echo "run: python3 has no PyTorch; TORCH_LIB may name the folder of libtorch_cpu.so" >&2
	exit 1
}
export LD_LIBRARY_PATH="$torch:$dir/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" CUDA_MODULE_LOADING=LAZY
# The bench asks git for the revision, and taskset to pin its sides.
mkdir -p "$dir/path" "$dir/run/lab/bench"
printf '#!/bin/sh\ncat %s/revision\n' "$dir" >"$dir/path/git"
command -v taskset >/dev/null || printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$dir/path/taskset"
chmod +x "$dir"/path/*
export PATH="$dir/path:$PATH"

tests() { # device
	export PAIRSTREAM_TEST_DEVICE=$1
	for package in ${PACKAGES:-$(cat "$dir/packages")}; do
		name=$(basename "$package")
		(cd "$dir/tree/$package" && within "${EACH:-300}" "$dir/bin/$name.test" -test.v -test.timeout "${EACH:-300}s") >"$dir/log" 2>&1
		code=$?
		{ echo "== $package on $1: exit $code"; cat "$dir/log"; } >>"$out/tests-$1.log"
		echo "$package on $1: exit $code, $(grep -c '^--- PASS' "$dir/log") passed, $(grep -c '^--- FAIL' "$dir/log") failed, $(grep -c '^--- SKIP' "$dir/log") skipped"
		grep -E '^ *--- FAIL|^panic:|^SIG|error while loading' "$dir/log" | head -40
		[ $code = 0 ] || failed=1
	done
}

ranks() {
	export DEVICE=cuda RANK_EXCHANGE=nccl NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
	(cd "$dir/tree/services/pairstream" && within "${EACH:-300}" "$dir/bin/pairstream.test" -test.v -test.timeout "${EACH:-300}s" \
		-test.run "${RANKS:-TestRanksTrainTheSameModel|TestRanksKilled}") >"$out/ranks.log" 2>&1 || failed=1
	grep -E '^ *--- (PASS|FAIL)|^panic:' "$out/ranks.log"
}

demo() {
	(cd "$dir/run" && DEVICE=cuda within 300 "$dir/bin/pairstream-tensors" demo --check) >"$out/demo.log" 2>&1 || failed=1
	tail -40 "$out/demo.log"
}

rows() { # rows, turns
	(cd "$dir/run" && within 590 "$dir/bin/bench" --device "$device" --only "$1" --repeats "$2" --results "$out/gpu.json") || failed=1
	cp "$dir/run/lab/bench/gpu.md" "$out/gpu.md" 2>/dev/null
}

check() {
	command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
	nproc
	uname -r
	for bin in "$dir"/bin/*; do
		missing=$(ldd "$bin" | grep 'not found')
		[ -z "$missing" ] || { echo "run: $(basename "$bin") lacks $missing" >&2; failed=1; }
	done
	within 60 "$dir/bin/bench" --list --device "$device" || failed=1
	(cd "$dir/tree/internal/model/torch" && within 60 "$dir/bin/torch.test" -test.v -test.run 'TestNewWorkerRefuses') || failed=1
}

for part in $(echo "$what" | tr + ' '); do
	at=$(date +%s)
	case $part in
	check) check ;;
	probe) within 240 python3 -u "$here/probe.py" --device "$device" --out "$out/probe.json" || failed=1 ;;
	cpu) tests cpu ;;
	tests) tests "$device" ;;
	ranks) ranks ;;
	demo) demo ;;
	models) rows gpu-train,gpu-cond,gpu-encode-b16,gpu-encode-b32 "${TURNS:-5}" ;;
	group) rows gpu-group-256 "${TURNS:-1}" ;;
	rows) rows "${2:?rows wants names}" "${TURNS:-3}" ;;
	*) echo "run: no part is called $part" >&2; exit 2 ;;
	esac
	echo "run: $part took $(($(date +%s) - at)) s, $(left) s left"
done
exit $failed
