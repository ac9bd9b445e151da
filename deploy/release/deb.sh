#!/bin/bash
# Writes the Debian package, with the dependencies that dpkg-shlibdeps finds.
#
#   deb.sh 1.2.3 BINARIES NOTICES FOLDER     as for tree.sh; NOTICES has the licences of what is linked in
set -euo pipefail
number=$1 binaries=$2 notices=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)
: "${SOURCE_DATE_EPOCH:?deb.sh wants it}"
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

root=$work/root
"$here/tree.sh" "$binaries" "$root/usr"
doc=$root/usr/share/doc/pairstream
mkdir -p "$doc" "$root/DEBIAN"
{
	printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: pairstream\n\nFiles: *\n'
	printf 'Copyright: the authors of pairstream\nLicense: Apache-2.0\n The text is in /usr/share/common-licenses/Apache-2.0.\n .\n'
	printf ' Licences of what is linked in are in NOTICES.gz beside this file.\n'
} >"$doc/copyright"
gzip -9n <"$notices" >"$doc/NOTICES.gz"
gzip -9n <"$here/../../CHANGELOG.md" >"$doc/changelog.gz"

# dpkg-shlibdeps reads a source package's control file.
mkdir "$work/debian"
printf 'Source: pairstream\n\nPackage: pairstream\nArchitecture: %s\n' "$arch" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/pairstream-tensors" 2>"$work/log" | sed 's/^shlibs:Depends=//') || { cat "$work/log" >&2; exit 1; }
[[ $depends == *libtorch* && $depends == *libturbojpeg* ]] || { echo "deb: found the dependencies \"$depends\", want libtorch and libturbojpeg among them" >&2; exit 1; }
cat >"$root/DEBIAN/control" <<C
Package: pairstream
Version: $number
Architecture: $arch
Maintainer: the maintainers of pairstream <maintainers@pairstream.invalid>
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Depends: $depends
Recommends: ca-certificates
Section: science
Priority: optional
Homepage: https://github.com/pairstream/pairstream
Description: image-text pairs into mini-batches for vision-language pre-training
 Streams a crawl of image-text pairs through five stages that group similar pairs, find false negatives
 among them, and train. It brings the command pairstream and, in /usr/lib/pairstream, each stage by its name.
C
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
chmod -R u=rwX,go=rX "$root"
dpkg-deb --root-owner-group -Zzstd -z10 --threads-max=1 --build "$root" "$out/pairstream_${number}_$arch.deb" >/dev/null
