#!/bin/bash
# Installs the wheels in a fresh virtual environment, runs what they bring, and removes them again. Nothing may be left.
#
#   test.sh FOLDER WORK    FOLDER has the wheels; WORK is made, and removed at the end
#
# PyTorch has 3 GB with its libraries for CUDA. Without TORCH_PIP the environment gets the part of PyPI's wheels that programs
# for the processor load, and a description of it that satisfies pip: of each version for which there is a binding.
# TORCH_PIP="torch==2.15.0" installs the whole of one. DEMO are the options of the demo; without it there is a small one. PYTHON is the
# Python of the environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dist=$(realpath "$1") work=$2
. "$here/../own.sh"
own "$work" "make test-wheel" && work=$(cd "$work" && pwd)
trap 'rm -rf "$work"' EXIT
die() { echo "test-wheel: $*" >&2; exit 1; }
say() { printf 'test-wheel: %4d s  %s\n' $SECONDS "$*"; }
# Nothing that this machine has reaches the program.
OLDHOME=$HOME
export HOME=$work/home
mkdir "$HOME"
unset LANGUAGE_MODELS LD_LIBRARY_PATH PYTHONPATH GOMODCACHE GOPATH

venv=$work/venv
${PYTHON:-python3} -m venv "$venv"
pip=("$venv/bin/pip" --disable-pip-version-check -q)
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
wheel=$(echo "$dist"/pairstream-*-manylinux*_"$(uname -m)".whl) languages=$(echo "$dist"/pairstream_languages-*.whl)
tensors=$(echo "$dist"/pairstream_tensors-*-manylinux*_"$(uname -m)".whl)
version=$(basename "$wheel" | cut -d- -f2)
# put makes PyTorch's libraries a package of that version.
put() { # version
	local torch
	torch=$(HOME=$OLDHOME TORCH_VERSION=$1 "$here/../torch/fetch.sh")
	rm -rf "$site"/torch "$site"/torch-*.dist-info
	mkdir "$site/torch" "$site/torch-$1.dist-info"
	echo 'raise ImportError("only the libraries are here")' >"$site/torch/__init__.py"
	ln -s "$torch/lib" "$site/torch/lib"
	printf 'Metadata-Version: 2.1\nName: torch\nVersion: %s\n' "$1" >"$site/torch-$1.dist-info/METADATA"
	echo pip >"$site/torch-$1.dist-info/INSTALLER"
}
# fails runs the command, which must fail, and wants a text in its error.
fails() { # text, command...
	local want=$1 out
	shift
	out=$("$@" 2>&1) && die "$* succeeded, want an error with: $want"
	[[ $out == *"$want"* ]] || die "$* says: $out; want: $want"
}
# What the wheel needs besides stays when it goes.
"${pip[@]}" install 'msgpack>=1.0,<2' 'numpy>=1.23'
[ -z "${TORCH_PIP:-}" ] || "${pip[@]}" install "$TORCH_PIP"
listing() { find "$venv" "$HOME" -not -name '*.pyc' -not -name __pycache__ | sort; }
listing >"$work/before"

"${pip[@]}" install "$wheel"
say "installed $(basename "$wheel")"
command=$venv/bin/pairstream
said=$("$command" --version)
[[ $said == "pairstream v$version (commit "* ]] || die "--version says: $said"
"$command" produce --help >/dev/null || die "what needs no tensors does not run without them"
fails "pip install pairstream_tensors-$version-" "$command" demo
"$venv/bin/python" -c 'import pairstream; from pairstream import Config; Config.from_env'

# The versions of PyTorch that have a binding.
bindings=$(python3 -m zipfile -l "$tensors" | sed -n 's|.*/torch-\([0-9.]*\)/lib.*|\1|p' | sort -V)
"${pip[@]}" install --no-deps "$tensors"
[ -z "${TORCH_PIP:-}" ] || mv "$site/torch" "$work/away"
fails "pip install 'torch==$(tail -n 1 <<<"$bindings").*'" "$command" eval --help
"$command" produce --help >/dev/null || die "what needs no tensors does not run without PyTorch"
[ -z "${TORCH_PIP:-}" ] || { mv "$work/away" "$site/torch" && bindings=$(sed 's/.*==\([0-9]*\.[0-9]*\).*/\1/' <<<"$TORCH_PIP"); }
for licence in "==== libfaiss-dev" "==== libturbojpeg0-dev" "==== libstdc++-12-dev" "==== Go go" "==== github.com/twmb/franz-go"; do
	grep -qF "$licence" "$site/pairstream_tensors/NOTICES" || die "NOTICES has no $licence"
done
for package in pairstream pairstream_tensors; do
	[ -s "$site/$package-$version.dist-info/licenses/LICENSE" ] || die "the licence of $package is missing"
done
say "errors name their remedies"

program=$site/pairstream_tensors/pairstream-tensors
for binding in $bindings; do
	[ -n "${TORCH_PIP:-}" ] || put "$binding.0"
	"${pip[@]}" install --no-index "$tensors" # pip accepts this PyTorch
	libraries=$site/pairstream_tensors/torch-$binding
	said=$(LD_LIBRARY_PATH=$libraries "$program" --version)
	say "$said"
	for want in "pairstream v$version (commit " "libtorch $binding." "built for $binding." "device cpu)"; do
		[[ $said == *"$want"* ]] || die "--version says: $said; want $want in it"
	done
	linked=$(LD_LIBRARY_PATH=$libraries ldd "$program")
	[[ $linked != *"not found"* ]] || die "the program finds not all of its libraries: $linked"
	grep -q "libtorch_cpu.so => $site" <<<"$linked" || die "libtorch is not that of the environment: $linked"
	"$command" eval --help >/dev/null || die "the command does not start on PyTorch $binding"
done
# Some installers link files to their cache.
mkdir "$work/linked"
for file in pairstream/_bin/pairstream pairstream_tensors/pairstream-tensors; do mv "$site/$file" "$work/linked/" && ln -s "$work/linked/$(basename "$file")" "$site/$file"; done
"$command" eval --help >/dev/null || die "programs behind links do not start"
for file in pairstream/_bin/pairstream pairstream_tensors/pairstream-tensors; do rm "$site/$file" && mv "$work/linked/$(basename "$file")" "$site/$file"; done

cd "$work"
if [ -z "${DEMO:-}" ]; then
	"$venv/bin/pairstream" synth "$work/scenes" --scenes 200 --seed 3 >/dev/null
	DEMO="--data $work/scenes --short --epochs 1 --bootstrap-steps 5 --holdout 20"
fi
for binding in $bindings; do
	[ -n "${TORCH_PIP:-}" ] || put "$binding.0"
	rm -rf "$work/demo"
	# shellcheck disable=SC2086 # words
	"$command" demo --dir "$work/demo" $DEMO >"$work/demo.log" 2>&1 || { cat "$work/demo.log"; die "the demo failed on PyTorch $binding"; }
	[ -s "$work/demo/report.html" ] || die "the demo wrote no report"
	say "the demo has run on PyTorch $binding: $(grep '^training steps' "$work/demo.log" | tr -s ' '), $(grep '^time  ' "$work/demo.log" | tr -s ' ')"
done

first=$work/demo/bootstrap.safetensors
fails "pip install pairstream_languages-*.whl" env FILTER='english: lang == "en"' ENCODER_CHECKPOINT="$first" COND_CHECKPOINT="$first" TRAIN_INIT="$first" \
	BUCKET_ROOTS="file://$work" CONSOLE_ADDR=off "$venv/bin/pairstream" up --addr 127.0.0.1:0 --data "$work/up"
"${pip[@]}" install "$languages"
"${pip[@]}" uninstall -y pairstream pairstream-tensors pairstream-languages
[ -n "${TORCH_PIP:-}" ] || rm -rf "$site"/torch "$site"/torch-*.dist-info
listing >"$work/after"
diff "$work/before" "$work/after" || die "these files were left behind, or are gone"
say "removed, and nothing is left"
