#!/usr/bin/env bash
# Runs the commands that no other test starts as a process, on a few hundred generated scenes: synth, settings, vocab,
# bootstrap, finetune, eval, and the experiments of the lab. It looks at their results, not at how good a model is that has learned for
# seconds.
#
#   commands.sh PAIRSTREAM LAB      the programs
set -euo pipefail

[ $# = 2 ] || { echo "usage: commands.sh PAIRSTREAM LAB" >&2; exit 2; }
pairstream=$(realpath "$1") lab=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "commands: $*" >&2; exit 1; }
has() { # FILE REGEXP
	grep -Eq "$2" "$1" || { cat "$1" >&2; fail "$1 has no line like $2"; }
}
run() { # NAME COMMAND... ; what it prints goes to NAME.txt
	local name=$1 started=$SECONDS
	shift
	"$@" >"$name.txt" 2>&1 || { cat "$name.txt" >&2; fail "$name failed"; }
	echo "commands: $name took $((SECONDS - started)) s"
}

# The command is static and small. Alone it runs what needs no tensors, and names the remedy for the rest.
grep -q INTERP <<<"$(readelf -lW "$pairstream")" && fail "pairstream asks for a loader: want it static"
kilobytes=$(python3 -c 'import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$pairstream" --version)
[ "$kilobytes" -le 40960 ] || fail "pairstream --version takes $kilobytes KB, want at most 40 MB"
mkdir alone && cp "$pairstream" alone/pairstream
for name in encoder trainer; do ln -s pairstream "alone/$name"; done
grep -q BUCKET_ROOTS <<<"$(alone/pairstream produce --help)" || fail "produce does not run without pairstream-tensors"
for asked in "pairstream demo" "pairstream help eval" trainer; do
	alone/$asked >alone.txt 2>&1 && fail "$asked runs without pairstream-tensors"
	has alone.txt 'computes with tensors, and .*/alone/pairstream-tensors is not there: .*pip install pairstream_tensors-'
done
grep -q -- --rerank <<<"$("$pairstream" help eval)" || fail "help eval does not list the flags of pairstream-tensors"
"$pairstream" eval --no-such-flag >alone.txt 2>&1 && fail "eval takes a flag that it does not know"
has alone.txt 'unknown flag: --no-such-flag'

run synth "$pairstream" synth --scenes 240 --captions 2 --side 64 shards
run settings "$pairstream" settings
has settings.txt '`GROUP_SIZE`'
run vocab "$pairstream" vocab --out words.txt shards
has words.txt '^\[CLS\]$'
run bootstrap "$pairstream" bootstrap --steps 20 --batch 16 --holdout 40 --out first.safetensors shards
run finetune "$pairstream" finetune --checkpoint first.safetensors --epochs 1 --batch 16 --holdout 40 --out tuned.safetensors shards
run eval "$pairstream" eval --checkpoint tuned.safetensors --holdout 40 --json shards
has eval.txt '"images": 40'
[ "$(stat -c %s tuned.safetensors)" -gt 100000 ] || fail "the fine-tuned weights are no larger than $(stat -c %s tuned.safetensors) bytes"
cmp -s first.safetensors tuned.safetensors && fail "fine-tuning changed nothing"

# Every experiment runs small: it shows that the way is whole, and nothing about the claims.
run experiments "$lab" experiments --short
for id in x1 x2 x3 x4 x5 x6 x7 x8 x9; do
	has experiments.txt "^$id: .*\(2 seeds\)"
done
has experiments.txt '^claim: '
