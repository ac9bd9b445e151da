#!/bin/bash
# Installs the wheels in a fresh virtual environment, runs what they bring, and removes them again. Nothing may be left.
#
#   test.sh FOLDER WORK    FOLDER has the wheels; WORK is made, and removed at the end
#
# PyTorch has 3 GB with its libraries for CUDA. Without TORCH_PIP the environment gets the part of PyPI's wheel that programs
# for the processor load, and a description of it that satisfies pip. TORCH_PIP="torch==2.11.0" installs the whole.
# DEMO are the options of the demo; without it there is a small one. PYTHON is the Python of the environment.
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
version=$(basename "$wheel" | cut -d- -f2)
if [ -n "${TORCH_PIP:-}" ]; then
	"${pip[@]}" install "$TORCH_PIP"
else
	torch=$(HOME=$OLDHOME "$here/../torch/fetch.sh")
	mkdir "$site/torch" "$site/torch-2.11.0.dist-info"
	echo 'raise ImportError("only the libraries are here")' >"$site/torch/__init__.py"
	ln -s "$torch/lib" "$site/torch/lib"
	printf 'Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n' >"$site/torch-2.11.0.dist-info/METADATA"
	echo pip >"$site/torch-2.11.0.dist-info/INSTALLER"
fi
# What the wheel needs besides stays when it goes.
"${pip[@]}" install 'msgpack>=1.0,<2' 'numpy>=1.23'
listing() { find "$venv" "$HOME" -not -name '*.pyc' -not -name __pycache__ | sort; }
listing >"$work/before"

"${pip[@]}" install "$wheel"
say "installed $(basename "$wheel")"
said=$("$venv/bin/pairstream" --version)
[[ $said == "pairstream v$version (commit "* ]] || die "--version says: $said"
said=$("$site/pairstream/_bin/pairstream-tensors" --version)
say "$said"
for want in "pairstream v$version (commit " "libtorch 2.11.0, built for 2.11.0, " "device cpu)"; do
	[[ $said == *"$want"* ]] || die "--version says: $said; want $want in it"
done
program=$site/pairstream/_bin/pairstream-tensors
linked=$(ldd "$program")
[[ $linked != *"not found"* ]] || die "the program finds not all of its libraries: $linked"
grep -q "libtorch_cpu.so => $site" <<<"$linked" || die "libtorch is not that of the environment: $linked"
for licence in "==== libfaiss-dev" "==== libturbojpeg0-dev" "==== Go go" "==== github.com/twmb/franz-go"; do
	grep -q "$licence" "$site/pairstream/_bin/NOTICES" || die "NOTICES has no $licence"
done
[ -s "$site/pairstream-$version.dist-info/licenses/LICENSE" ] || die "the licence is missing"
"$venv/bin/python" -c 'import pairstream; from pairstream import Config; Config.from_env'

# fails runs the command, which must fail, and wants a text in its error.
fails() { # text, command...
	local want=$1 out
	shift
	out=$("$@" 2>&1) && die "$* succeeded, want an error with: $want"
	[[ $out == *"$want"* ]] || die "$* says: $out; want: $want"
}
mv "$site/torch" "$site/away"
fails "pip install 'torch==2.11.*'" "$venv/bin/pairstream" eval --help
"$venv/bin/pairstream" produce --help >/dev/null || die "what needs no tensors does not run without PyTorch"
mv "$site/away" "$site/torch"
info=$(echo "$site"/torch-2.11.*.dist-info)
mv "$info" "$site/torch-2.9.0.dist-info" && sed -i.kept 's/^Version: .*/Version: 2.9.0/' "$site/torch-2.9.0.dist-info/METADATA"
fails "another version than 2.11" "$venv/bin/pairstream" eval --help
mv "$site/torch-2.9.0.dist-info/METADATA.kept" "$site/torch-2.9.0.dist-info/METADATA" && mv "$site/torch-2.9.0.dist-info" "$info"
say "errors name their remedies"
# Some installers link files to their cache.
folder=$(dirname "$program")
mkdir "$work/linked"
for name in pairstream pairstream-tensors; do mv "$folder/$name" "$work/linked/" && ln -s "$work/linked/$name" "$folder/$name"; done
"$venv/bin/pairstream" eval --help >/dev/null || die "programs behind links do not start"
for name in pairstream pairstream-tensors; do rm "$folder/$name" && mv "$work/linked/$name" "$folder/$name"; done

cd "$work"
if [ -z "${DEMO:-}" ]; then
	"$venv/bin/pairstream" synth "$work/scenes" --scenes 200 --seed 3 >/dev/null
	DEMO="--data $work/scenes --short --epochs 1 --bootstrap-steps 5 --holdout 20"
fi
"$venv/bin/pairstream" demo --dir "$work/demo" $DEMO >"$work/demo.log" 2>&1 || { cat "$work/demo.log"; die "the demo failed"; }
[ -s "$work/demo/report.html" ] || die "the demo wrote no report"
say "the demo has run: $(grep '^training steps' "$work/demo.log" | tr -s ' '), $(grep '^time  ' "$work/demo.log" | tr -s ' ')"

first=$work/demo/bootstrap.safetensors
fails "pip install pairstream_languages-*.whl" env FILTER='english: lang == "en"' ENCODER_CHECKPOINT="$first" COND_CHECKPOINT="$first" TRAIN_INIT="$first" \
	BUCKET_ROOTS="file://$work" CONSOLE_ADDR=off "$venv/bin/pairstream" up --addr 127.0.0.1:0 --data "$work/up"
"${pip[@]}" install "$languages"
"${pip[@]}" uninstall -y pairstream pairstream-languages
listing >"$work/after"
diff "$work/before" "$work/after" || die "these files were left behind, or are gone"
say "removed, and nothing is left"
