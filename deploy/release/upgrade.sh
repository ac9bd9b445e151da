#!/bin/bash
# Runs a pipeline with one version of the program, stops it at a random point, upgrades, and goes on with the next one. Then the
# new version repeats the whole, and every record must be the same.
#
#   upgrade.sh PAIRSTREAM FOLDER COMMAND...     COMMAND replaces the program PAIRSTREAM by the next version; FOLDER is made
#
# SOAK_SEED draws the point, and whether the first version ends in order or is killed.
set -euo pipefail
pairstream=$1 folder=$2
shift 2
die() { echo "upgrade: $*" >&2; [ ! -f log.txt ] || tail -n 20 log.txt >&2; exit 1; }
say() { printf 'upgrade: %4d s  %s\n' $SECONDS "$*"; }
mkdir -p "$folder" && cd "$folder"
addr=127.0.0.1:${PORT:-29092}
export TORCH_THREADS=1 LANES=1 GROUP_SIZE=300 BATCH_SIZE=20 SEARCH_SPACE=60 QUEUE_SIZE=300 EPOCHS=2 CHECKPOINT_EVERY=1 CHECKPOINT_DIR=checkpoints
export BUCKET_ROOTS=file://$PWD/scenes ENCODER_CHECKPOINT=first.safetensors COND_CHECKPOINT=first.safetensors TRAIN_INIT=first.safetensors CONSOLE_ADDR=off
export COND_MIN_PRECISION=0 TRAIN_EXIT_AT_END=true LOG_FORMAT=text

"$pairstream" synth scenes --scenes 400 --captions 2 --side 64 --seed 5 >/dev/null
"$pairstream" bootstrap --steps 10 --batch 16 --holdout 20 --out first.safetensors scenes >log.txt 2>&1 || die "no first model"
before=$("$pairstream" --version)

up() { "$pairstream" up --addr "$addr" --data data >>log.txt 2>&1 & running=$!; trap "kill -KILL $running 2>/dev/null || true" EXIT; }
client() { KAFKA_BROKERS=$addr "$pairstream" "$@"; }
up
for _ in $(seq 120); do client status >status.txt 2>&1 && break; sleep 0.5; done
client produce scenes >>log.txt 2>&1 || die "publishing the pairs"
say "$before: the pairs are published"
# Between the trainer's first checkpoint and its last one before the seal.
RANDOM=${SOAK_SEED:=$RANDOM}
steps=$((1 + RANDOM % 10)) millis=$((RANDOM % 1000)) signal=$([ $((RANDOM % 2)) = 0 ] && echo TERM || echo KILL)
newest() { ls checkpoints/checkpoint-*.safetensors 2>/dev/null | tail -n 1 | tr -dc 0-9 | sed 's/^0*//' || true; }
for _ in $(seq 1200); do
	at=$(newest)
	[ "${at:-0}" -lt $steps ] || break
	kill -0 $running 2>/dev/null || die "the pipeline ended before it wrote a checkpoint of step $steps"
	sleep 0.1
done
[ "${at:-0}" -ge $steps ] || die "no checkpoint of step $steps was written"
sleep 0.$(printf %03d $millis)
kill -$signal $running
wait $running || [ $signal = KILL ] || die "the pipeline did not end cleanly when it was asked to"
at=$(newest)
say "SOAK_SEED=$SOAK_SEED: stopped by SIG$signal behind the checkpoint of step $at"

"$@" >upgrade.txt 2>&1 || { cat upgrade.txt >&2; die "upgrading"; }
after=$("$pairstream" --version)
[ "$before" != "$after" ] || die "the version is still $after"
up
for _ in $(seq 120); do client status >status.txt 2>&1 && break; sleep 0.5; done
client seal --final >>log.txt 2>&1 || die "sealing"
wait $running || die "the pipeline failed after the upgrade"
say "$after went on to step $(newest)"
[ "$at" != "$(newest)" ] || die "training did not go on"

"$pairstream" run-manifest --data data --out run.json >>log.txt 2>&1 || die "describing the run"
"$pairstream" replay run.json --data data --namespace again >replay.txt 2>&1 || { cat replay.txt >&2; die "the new version makes other records than both together"; }
say "repeated: $(tail -n 1 replay.txt)"
