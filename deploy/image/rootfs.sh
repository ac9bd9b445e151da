#!/bin/sh
# Makes the root filesystem of the CPU image: the binaries, the shared libraries that they load and their copyright
# notes, certificates, and the user that everything runs as. Runs inside the build stage of deploy/Dockerfile.
#
#   rootfs.sh BINARIES ROOTFS      BINARIES/static and BINARIES/shared hold what was built
set -eu
binaries=$1 root=$2

mkdir -p "$root/usr/lib" "$root/usr/lib64" "$root/etc/ssl/certs" "$root/tmp"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
chmod 1777 "$root/tmp"
"$(dirname "$0")/names.sh" "$binaries" "$root"

# ldd prints "name => path (address)", and a bare path for the loader. Each library is copied under the name by which it
# is looked up, not the name of the file behind its links: the choice among several BLAS libraries is such a link.
for binary in "$binaries"/shared/*; do
	missing=$(ldd "$binary" | grep 'not found' || true)
	[ -z "$missing" ] || { echo "rootfs: $binary: $missing" >&2; exit 1; }
	ldd "$binary" | awk '$2 == "=>" {print $3} $1 ~ /^\// {print $1}'
done | sort -u | while read -r library; do
	folder=$(readlink -f "$(dirname "$library")")
	mkdir -p "$root$folder"
	cp -L "$library" "$root$folder/"
	package=$(dpkg-query -S "$(readlink -f "$library")" 2>/dev/null | head -n 1 | cut -d: -f1)
	if [ -n "$package" ] && [ -e "/usr/share/doc/$package/copyright" ]; then
		mkdir -p "$root/usr/share/doc/$package"
		cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/"
	fi
done
ldconfig -r "$root" # without a cache the loader tries ten folders for each of three hundred libraries

# The package's authorities alone: a machine may trust others of its own.
for certificate in /usr/share/ca-certificates/mozilla/*.crt; do
	cat "$certificate"
done >"$root/etc/ssl/certs/ca-certificates.crt"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'pairstream:x:65532:65532:pairstream:/tmp:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'pairstream:x:65532:' >"$root/etc/group"
