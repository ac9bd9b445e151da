#!/usr/bin/env bash
# Runs the commands that no other test starts as a process, on a few hundred generated scenes: synth, settings, vocab,
# bootstrap, finetune, eval, experiments. It looks at their results, not at how good a model is that has learned for
# seconds.
#
#   commands.sh PAIRSTREAM      the program
set -euo pipefail

[ $# = 1 ] || { echo "usage: commands.sh PAIRSTREAM" >&2; exit 2; }
pairstream=$(realpath "$1")
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

# Trainings this short show nothing about the papers' claims; the command says so and fails, with every result in its file.
started=$SECONDS
status=0
"$pairstream" experiments --seeds 1 --scenes 240 --first-steps 10 --con-d-steps 10 --batch 16 --space 4 --epochs 1 --out results/experiments.json >experiments.txt 2>&1 || status=$?
[ $status = 0 ] || has experiments.txt 'want (less by GRIT|more than 0\.8)'
has experiments.txt '^ *connections +candidates'
has results/experiments.json '"sampling"'
echo "commands: experiments took $((SECONDS - started)) s"
