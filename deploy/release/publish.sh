#!/bin/bash
# Publishes a release's images and chart: one manifest list for all processors, the image for CUDA, and the chart as an OCI artifact.
#
#   publish.sh v1.2.3 DIST REGISTRY      REGISTRY is a host and a folder, such as registry.example/pairstream
#
# It needs buildah and helm. REGISTRY_USER and REGISTRY_PASSWORD log in; without them the registry is one without a login.
# PLAIN_HTTP=1 is for a registry without TLS, as in tests.
set -euo pipefail
version=${1:?publish.sh wants a version, such as v0.1.0} dist=${2:?publish.sh wants the folder of the release} registry=${3:?publish.sh wants a registry}
die() { echo "publish: $*" >&2; exit 1; }
[[ $registry == */* ]] || die "the registry is \"$registry\", want a host and a folder, such as registry.example/pairstream"
for tool in buildah helm; do command -v "$tool" >/dev/null || die "no $tool"; done
host=${registry%%/*}
tls=() plain=()
[ -z "${PLAIN_HTTP:-}" ] || { tls=(--tls-verify=false) plain=(--plain-http); }
if [ -n "${REGISTRY_USER:-}" ]; then
	: "${REGISTRY_PASSWORD:?publish.sh has a REGISTRY_USER and wants its REGISTRY_PASSWORD}"
	buildah login "${tls[@]}" --username "$REGISTRY_USER" --password-stdin "$host" <<<"$REGISTRY_PASSWORD"
	helm registry login --username "$REGISTRY_USER" --password-stdin "$host" <<<"$REGISTRY_PASSWORD"
fi

push() { # tag, archives...: one list of the images in the archives
	local tag=$1 list archive
	shift
	list=pairstream-$tag-list
	buildah manifest rm "$list" >/dev/null 2>&1 || true # of an earlier try
	buildah manifest create "$list" >/dev/null
	for archive; do buildah manifest add "$list" "oci-archive:$archive" >/dev/null; done
	buildah manifest push --all "${tls[@]}" "$list" "docker://$registry/pairstream:$tag"
	echo "publish: $registry/pairstream:$tag has $# images"
}
images=("$dist/pairstream-$version"-image-a*.tar)
[ -f "${images[0]}" ] || die "$dist has no image of $version"
push "$version" "${images[@]}"
cuda=("$dist/pairstream-$version"-image-cuda-*.tar)
[ ! -f "${cuda[0]}" ] || push "$version-cuda" "${cuda[@]}"

chart=$dist/pairstream-chart-${version#v}.tgz
[ -f "$chart" ] || die "$dist has no chart of $version"
helm push "${plain[@]}" "$chart" "oci://$registry/charts"
