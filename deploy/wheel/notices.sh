#!/bin/sh
# Prints the licences of what is linked into a program: FAISS, libjpeg-turbo and libstdc++ of Debian, and Go's modules.
#
#   notices.sh [ROOT [go]]     ROOT has Debian's packages of another architecture (sysroot.sh); with "go" Go's modules alone
set -eu
root=${1:-} packages="libfaiss-dev libturbojpeg0-dev libstdc++-12-dev"
[ "${2:-}" != go ] || packages=
for package in $packages; do
	printf '==== %s %s\n\n' "$package" "$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f='${Version}' "$package")"
	cat "$root/usr/share/doc/$package/copyright"
	echo
done
printf '==== Go %s\n\n' "$(go env GOVERSION)"
cat "$(go env GOROOT)/LICENSE"
go list -tags disable_grpc_modules,netgo,osusergo -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./services/pairstream | LC_ALL=C sort -u | while read -r path version dir; do
	printf '\n==== %s %s\n\n' "$path" "$version"
	found=
	for file in "$dir"/*LICEN[SC]E* "$dir"/*licen[sc]e* "$dir"/COPYING* "$dir"/NOTICE*; do
		[ ! -f "$file" ] || { cat "$file"; found=1; }
	done
	[ -n "$found" ] || { echo "notices: $path has no licence file" >&2; exit 1; }
done
