#!/bin/sh
# Prints a folder with Debian's packages of another architecture that pairstream builds against and runs on. It unpacks them
# once into the user's cache, from the suite of this machine. It installs nothing, and wants no root.
#
#   ROOT=$(deploy/release/sysroot.sh arm64)
set -eu
arch=${1:?sysroot.sh wants an architecture, such as arm64}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pairstream/debian-$arch
made=$(cksum <"$0") # a folder that another version of this script made is made anew
if [ "$(cat "$cache/made" 2>/dev/null)" != "$made" ]; then
	echo "sysroot: fetching Debian's packages for $arch, 230 MB, into $cache" >&2
	part=$cache.part
	rm -rf "$part" && mkdir -p "$part/root/var/lib/dpkg/info" "$part/state/lists/partial" "$part/cache/archives/partial"
	: >"$part/status"
	echo 1 >"$part/root/var/lib/dpkg/info/format"
	apt() {
		apt-get -qq -o Dir::State="$part/state" -o Dir::State::status="$part/status" -o Dir::Cache="$part/cache" -o APT::Architecture="$arch" \
			-o APT::Architectures::="$arch" -o APT::Install-Recommends=false -o Debug::NoLocking=1 "$@" >"$part/log" 2>&1 || { cat "$part/log" >&2; exit 1; }
	}
	apt update
	apt install -y --download-only libtorch-dev libfaiss-dev libopenblas-pthread-dev libturbojpeg0-dev libc6-dev libstdc++-12-dev
	for package in "$part"/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -C "$part/root" --exclude='./usr/share/[!d]*' --exclude='./usr/share/doc/*/[!c]*' -xf -
		name=$(dpkg-deb -f "$package" Package)
		[ "$(dpkg-deb -f "$package" Multi-Arch)" != same ] || name=$name:$arch
		dpkg-deb --fsys-tarfile "$package" | tar -tf - | sed 's/^\.//; s/\/$//; /^$/d' >"$part/root/var/lib/dpkg/info/$name.list"
		{ dpkg-deb -f "$package" Package Version Architecture Multi-Arch Maintainer Description && printf 'Status: install ok installed\n\n'; } >>"$part/root/var/lib/dpkg/status"
	done
	# What installing would have linked.
	lib=$(echo "$part"/root/usr/lib/*-linux-gnu)
	for name in libblas.so.3 liblapack.so.3 libopenblas.so.0 libopenblas.so; do
		ln -sf "openblas-pthread/$name" "$lib/$name"
	done
	echo "$made" >"$part/root/made"
	rm -rf "$cache"
	mv "$part/root" "$cache"
	rm -rf "$part"
fi
echo "$cache"
