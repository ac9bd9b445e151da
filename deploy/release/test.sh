#!/bin/bash
# Builds a release twice, from two clones in different folders, the second one with an empty cache of compiled packages, and
# compares the sums. It also tries the signing.
#
#   test.sh FOLDER     FOLDER is made anew; CACHED=1 lets the second build take what is compiled already
set -euo pipefail
work=$1 version=v0.0.1
die() { echo "test-release: $*" >&2; exit 1; }
. "$(dirname "$0")/../own.sh"
own "$work" "make test-release" && work=$(cd "$work" && pwd)
trap 'rm -rf "$work"' EXIT
repository=$(git rev-parse --show-toplevel) commit=$(git rev-parse HEAD)
once() { # name of the clone, environment...
	local clone=$work/$1
	shift
	git clone -q "$repository" "$clone" && git -C "$clone" checkout -q "$commit"
	touch -d 2000-01-01 "$clone/deploy/wheel/requirements.txt" # what the linked environment was made from
	mkdir -p "$clone/bin" && ln -s "$repository/bin/tools" "$repository/bin/venv-release" "$clone/bin/"
	(
		cd "$clone"
		for setting; do export "${setting?}"; done
		make -s release VERSION=$version
	)
}
once first
first=$work/first/dist
cached=GOCACHE=$work/cache
[ -z "${CACHED:-}" ] || cached=GOFLAGS=
once another/folder "$cached" LANG=de_DE.UTF-8 TZ=Asia/Tokyo
second=$work/another/folder/dist
diff "$first/SHA256SUMS" "$second/SHA256SUMS" || die "two builds of one commit differ"
(cd "$first" && sha256sum --quiet -c SHA256SUMS) || die "the sums are not those of the files"
echo "test-release: $(wc -l <"$first/SHA256SUMS") files have the same bytes twice"

if command -v minisign >/dev/null; then
	minisign -G -W -p "$work/public" -s "$work/secret" >/dev/null
	RELEASE_KEY=$work/secret "$repository/deploy/release/sign.sh" "$first/SHA256SUMS" >/dev/null </dev/null
	minisign -V -q -p "$work/public" -m "$first/SHA256SUMS" || die "the signature does not hold"
	echo "test-release: the signature holds"
else
	echo "test-release: NOT TRIED: signing, as minisign is missing"
fi
