#!/bin/sh
# Builds the wheels: pairstream with the static command and the Python package, which asks for no PyTorch; pairstream-tensors with the
# program that computes with tensors, and a binding for each version of PyTorch; and the models that tell languages. The same
# sources, tools and SOURCE_DATE_EPOCH give the same bytes, in any folder.
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
machine=${triple%%-*}
platform=manylinux_2_17_$machine         # of the static program, which asks nothing of the system
tensors_platform=manylinux_2_28_$machine # of PyTorch's own wheels
limit=$((40 << 20))                      # bytes of each wheel
# The versions of PyTorch that have a binding. The program is linked with that of the first one.
case $ARCH in
amd64) torches="2.11.0 2.15.0" loader=ld-linux-x86-64.so.2 ;;
arm64) torches="2.11.0" loader=ld-linux-aarch64.so.1 ;;
esac

export ARCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib" "$work/bindings"

# The linker takes the C library and libstdc++ from this folder: with the symbols that the platform has, and newer ones from archives.
lib=$debian/usr/lib/$triple
cc="$triple-gcc ${debian:+--sysroot=$debian}" cxx="$triple-g++ ${debian:+--sysroot=$debian}"
place() { $cxx -print-file-name="$1"; }
"$python" "$here/baseline.py" "$work/lib" "$triple-gcc" "$(place libc.so.6)" "$(place libm.so.6)" "$(place libstdc++.so.6)"
for source in start newer; do $cc -O2 -fPIC -fno-builtin -c "$here/$source.c" -o "$work/$source.o"; done
"$triple-ar" rcsD "$work/lib/libnewer.a" "$work/start.o" "$work/newer.o"
group() { # library, what is looked for in turn
	mv "$work/lib/$1.so" "$work/lib/$1-baseline.so"
	echo "GROUP($work/lib/$1-baseline.so $2)" >"$work/lib/$1.so"
}
group libc "$work/lib/libnewer.a $(place libc_nonshared.a) AS_NEEDED($(place "$loader"))"
group libstdc++ "$(place libstdc++.a)"
echo '{ global: ps_*; psn_*; local: *; };' >"$work/binding.map"
echo '{ global: pairstreamRunIsFinal; local: *; };' >"$work/program.map"

# bind links the binding for a version of PyTorch: the C++ part of what calls libtorch. It calls the program back once.
bind() { # version
	TORCH=$(TORCH_VERSION=$1 deploy/torch/fetch.sh)
	objects=$(TORCH=$TORCH deploy/torch/bindings.sh)
	folder=$work/bindings/torch-${1%.*}
	mkdir "$folder"
	$cxx -shared -s -o "$folder/libpairstream_torch.so" "$objects"/*.o -L"$work/lib" -lstdc++ -L"$TORCH/lib" -ltorch_cpu -lc10 \
		-Wl,--soname=libpairstream_torch.so -Wl,--version-script="$work/binding.map" -Wl,--build-id=none -Wl,--allow-shlib-undefined \
		-Wl,-z,defs -Wl,--warn-unresolved-symbols -Wl,--disable-new-dtags -Wl,-rpath,'$ORIGIN/../../torch/lib' 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
	! grep 'undefined reference' "$work/log" | grep -v pairstreamRunIsFinal >&2 || { echo "wheel: the binding for PyTorch $1 asks for symbols that $tensors_platform does not have" >&2; exit 1; }
}
for torch in $torches; do bind "$torch"; done
first=${torches%% *}
TORCH=$(TORCH_VERSION=$first deploy/torch/fetch.sh)
. deploy/torch/flags.sh

# The linker takes more from this folder: the binding, and archives. libjpeg-turbo and FAISS go into the program. PyTorch has a BLAS, and OpenBLAS
# would be a second one. On x86-64 it is MKL in libtorch. What FAISS alone would call, for transformations that pairstream
# does not use, that MKL does not give to others: these symbols may stay open. On arm64 it is NVPL beside libtorch.
ln -s "$work/bindings/torch-${first%.*}/libpairstream_torch.so" "$work/lib/"
ln -s "$lib/libturbojpeg.a" "$work/lib/"
"$triple-objcopy" --weaken-symbol=dgesvd_ --weaken-symbol=dsyev_ --weaken-symbol=sgesvd_ --weaken-symbol=ssyrk_ --weaken-symbol=sgetri_ --weaken-symbol=dgetri_ "$lib/libfaiss.a" "$work/lib/libfaiss.a"
case $ARCH in
amd64)
	# A library of these names stands for libtorch, which calls more of libstdc++ than the linker may see.
	mkdir "$work/blas"
	nm -u "$lib/libfaiss.a" | sed -n 's/^ *U \([sd][a-z0-9]*_\)$/void \1(void) {}/p' | sort -u |
		$cc -shared -nostdlib -Wl,--soname=libtorch_cpu.so -Wl,--build-id=none -x c - -o "$work/blas/libtorch_cpu.so"
	echo "INPUT($work/blas/libtorch_cpu.so)" >"$work/lib/libopenblas.so"
	;;
arm64) echo 'INPUT(-l:libnvpl_blas_lp64_gomp.so.0 -l:libnvpl_lapack_lp64_gomp.so.0)' >"$work/lib/libopenblas.so" ;;
esac
# cloud.google.com/go/storage speaks gRPC to Google as well, which pairstream never asks for.
echo "wheel: building the programs for $ARCH, with bindings for PyTorch $torches"
export GOFLAGS="-buildvcs=false -trimpath"
build() { # CGO_ENABLED, name, tags, flags of the linker
	CGO_ENABLED=$1 for_target go build -tags "disable_grpc_modules,netgo,osusergo$3" \
		-ldflags "-s -w -buildid= -X $stamp.stamp=v$version -X $stamp.commit=$COMMIT $4" -o "$work/$2" ./services/pairstream
}
build 0 pairstream "" ""
build 1 pairstream-tensors ,torchbindings "-extldflags '-L$work/lib -no-pie -Wl,--version-script=$work/program.map -Wl,--wrap=__libc_start_main'"
"$bin/patchelf" --force-rpath --set-rpath '$ORIGIN/../torch/lib' "$work/pairstream-tensors"

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

edit '^pairstream = \["py.typed"' 'pairstream = ["_bin\/*", "py.typed"'
edit '^torch = \[' "languages = [\"pairstream-languages==$version\"]\ntensors = [\"pairstream-tensors==$version\"]\ntorch = ["
mkdir "$stage/src/pairstream/_bin"
cp "$work/pairstream" "$stage/src/pairstream/_bin/"
"$here/notices.sh" "" go >"$stage/src/pairstream/_bin/NOTICES"
(cd "$stage" && find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +)
dist "$stage" bdist_wheel --plat-name "$platform" -d "$out"

tensors=$work/tensors
mkdir -p "$tensors/src/pairstream_tensors"
cp "$here/tensors.toml" "$tensors/pyproject.toml"
cp LICENSE "$tensors/"
# Every minor version from the first to the last binding that has none is excluded.
wanted=$(echo "$torches" | tr ' ' '\n' | awk -F. 'NR == 1 {printf ">=%d.%d", $1, $2; next_minor = $2} {while (next_minor < $2) printf ",!=%d.%d.*", $1, next_minor++; next_minor++} END {printf ",<%d.%d", $1, next_minor}')
sed -i "s/^version = .*/version = \"$version\"/; s/^dependencies = .*/dependencies = [\"pairstream==$version\", \"torch$wanted\"]/" "$tensors/pyproject.toml"
cp -r "$work/pairstream-tensors" "$work/bindings"/torch-* "$tensors/src/pairstream_tensors/"
"$here/notices.sh" "$debian" >"$tensors/src/pairstream_tensors/NOTICES"
echo '"""The program of pairstream that computes with tensors, and its bindings for versions of PyTorch."""' >"$tensors/src/pairstream_tensors/__init__.py"
(cd "$tensors" && chmod -R u=rwX,go=rX . && find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +)
dist "$tensors" bdist_wheel --plat-name "$tensors_platform" -d "$out"

languages=$work/languages
mkdir -p "$languages/src/pairstream_languages"
cp "$here/languages.toml" "$languages/pyproject.toml"
sed -i "s/^version = .*/version = \"$version\"/" "$languages/pyproject.toml"
cp "$(go list -m -f '{{.Dir}}' github.com/pemistahl/lingua-go)/LICENSE" "$languages/"
go run ./internal/content/language/pack "$languages/src/pairstream_languages/languages.zip"
echo '"""The models of lingua-go that tell the language of a caption, for pairstream."""' >"$languages/src/pairstream_languages/__init__.py"
(cd "$languages" && chmod -R u=rwX,go=rX . && find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +)
dist "$languages" bdist_wheel -d "$out"

check() { # name, platform
	wheel=$out/$1-$version-py3-none-$2.whl
	size=$(stat -c %s "$wheel")
	[ "$size" -le "$limit" ] || { echo "wheel: $size bytes of $1, want at most $limit" >&2; exit 1; }
	PATH="$bin:$PATH" "$python" "$here/check.py" "$wheel" "$2"
	echo "wheel: $wheel has $size bytes"
}
check pairstream "$platform"
check pairstream_tensors "$tensors_platform"
