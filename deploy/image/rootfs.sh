#!/bin/sh
# Makes the root filesystem of an image: the binaries, the shared libraries that they load and their copyright notes,
# certificates, and the user that everything runs as. Runs inside the build stage of deploy/Dockerfile, and for releases.
#
#   rootfs.sh BINARIES ROOTFS      BINARIES/static and BINARIES/shared hold what was built
#
# ROOTFS may have folders of libraries already, which LD_LIBRARY_PATH names. For another architecture (ARCH, target.sh) qemu
# asks its loader, and the libraries are those below its folder of Debian's packages.
set -eu
binaries=$1 root=$2
cd "$(dirname "$0")/../.."
. deploy/release/target.sh

mkdir -p "$root/usr/lib" "$root/usr/lib64" "$root/etc/ssl/certs" "$root/tmp"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
chmod 1777 "$root/tmp"
deploy/image/names.sh "$binaries" "$root"

loaded() { # program: prints what ldd does
	if [ -z "$debian" ]; then
		ldd "$1"
	else
		"qemu-${triple%%-*}-static" -L "$debian" -E LD_TRACE_LOADED_OBJECTS=1 "$1"
	fi
}
# Debian's lists name libraries with or without /usr before /lib.
package() { # path: prints the package that it is from
	for path in "$1" "${1#/usr}" "/usr$1"; do
		dpkg-query --admindir="$debian/var/lib/dpkg" -S "$path" 2>/dev/null && return
	done | head -n 1 | cut -d: -f1
}

# ldd prints "name => path (address)", and a bare path for the loader. Each library is copied under the name by which it
# is looked up, not the name of the file behind its links: the choice among several BLAS libraries is such a link.
list=$(mktemp)
trap 'rm -f "$list"' EXIT
for binary in "$binaries"/shared/*; do
	loaded "$binary" >"$list.new"
	! grep 'not found' "$list.new" >&2 || { echo "rootfs: $binary does not find these libraries" >&2; exit 1; }
	awk '$2 == "=>" {print $3} $1 ~ /^\// {print $1}' "$list.new" >>"$list"
	rm "$list.new"
done
sort -u "$list" | while read -r library; do
	case $library in "$root"/*) continue ;; esac
	folder=$(readlink -f "$debian$(dirname "$library")")
	folder=${folder#"$debian"}
	case $folder in /usr/*) ;; *) folder=/usr$folder ;; esac
	mkdir -p "$root$folder"
	cp -L "$debian$library" "$root$folder/"
	file=$(readlink -f "$debian$library")
	name=$(package "${file#"$debian"}")
	notes=usr/share/doc/$name/copyright
	[ -n "$name" ] && [ -e "$debian/$notes" ] || { echo "rootfs: no copyright notes for $library" >&2; exit 1; }
	mkdir -p "$root/usr/share/doc/$name"
	cp -L "$debian/$notes" "$root/$notes"
done
# Without a cache the loader tries ten folders for each of three hundred libraries. ldconfig knows this architecture alone.
[ -n "$debian" ] || ldconfig -r "$root"

# The package's authorities alone: a machine may trust others of its own.
for certificate in /usr/share/ca-certificates/mozilla/*.crt; do
	cat "$certificate"
done >"$root/etc/ssl/certs/ca-certificates.crt"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'pairstream:x:65532:65532:pairstream:/tmp:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'pairstream:x:65532:' >"$root/etc/group"
