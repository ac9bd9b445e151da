#!/bin/bash
# Installs a release in clean root file systems without compilers, runs it there, upgrades to it, and removes it again.
#
#   install.sh DIST               as root
#
# Debian 12 gets the Debian package, and the wheel; Debian 13, with its newer Python, the wheel. debootstrap makes the roots
# once, in the user's cache. PyTorch in them is the part of PyPI's wheels that programs for the processor load.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
dist=$(realpath "$1")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pairstream/roots
die() { echo "test-install: $*" >&2; exit 1; }
say() { printf 'test-install: %4d s  %s\n' $SECONDS "$*"; }
[ "$(id -u)" = 0 ] || die "want root, for debootstrap and chroot"
torches="2.11.0 2.15.0" # for which the wheel has bindings
for version in $torches; do TORCH_VERSION=$version "$repository/deploy/torch/fetch.sh" >/dev/null; done
# Mounts are seen by the inner process alone, and gone with it: what is removed at the end holds no mount.
if [ -z "${INSIDE:-}" ]; then
	work=$(mktemp -d)
	trap 'rm -rf --one-file-system "$work"' EXIT
	INSIDE=$work unshare --mount --propagation private "$0" "$dist"
	exit
fi
work=$INSIDE root=
mkdir -p "$cache"
leave() {
	umount "$root/proc"
	rm -rf --one-file-system "$root"
}

enter() { # suite: unpacks a clean root, and puts into it what programs and tests need
	local suite=$1 tool version
	if [ ! -f "$cache/$suite.tar" ]; then
		say "making a root of Debian $suite"
		debootstrap --variant=minbase --include=ca-certificates,python3-venv "$suite" "$work/new" >"$work/log" 2>&1 || { tail "$work/log" >&2; die "debootstrap failed"; }
		! mountpoint -q "$work/new/proc" || umount "$work/new/proc"
		rm -rf "$work"/new/var/cache/apt/archives/*.deb
		tar -C "$work/new" --one-file-system -cf "$cache/$suite.part" . && mv "$cache/$suite.part" "$cache/$suite.tar"
		rm -rf --one-file-system "$work/new"
	fi
	root=$work/root
	mkdir "$root" && tar -C "$root" -xf "$cache/$suite.tar"
	mount -t proc proc "$root/proc"
	mkdir -p "$root/mnt/tests" "$root/mnt/dist"
	for version in $torches; do
		mkdir -p "$root/root/.cache/pairstream/torch-$version/torch"
		cp -r "${cache%/roots}/torch-$version/torch/lib" "$root/root/.cache/pairstream/torch-$version/torch/"
	done
	cp /etc/resolv.conf /etc/hosts "$root/etc/"
	cp -r /etc/apt/apt.conf.d/99* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
	cp /etc/ssl/certs/ca-certificates.crt "$root/mnt/machine.crt" # whom this machine trusts, for the registry
	cp -r "$repository/deploy" "$root/mnt/tests/"
	cp "$dist"/*.whl "$dist"/*.deb "$root/mnt/dist/"
	for tool in gcc cc g++ go make; do
		! within "command -v $tool" >/dev/null || die "the root of $suite has $tool"
	done
}
within() { # shell commands
	chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		PIP_CERT=/mnt/machine.crt TORCH_THREADS=1 bash -ec "$1"
}
# listing names all files, but for what a package manager writes about itself and what programs write as they run.
listing() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./root -o -path ./mnt -o -path ./tmp -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/dpkg \) -prune -o -print | sort); }

debian() {
	enter bookworm
	local deb number
	deb=$(cd "$dist" && echo pairstream_*.deb) number=$(echo "$dist"/pairstream_*.deb | cut -d_ -f2)
	within 'apt-get update -qq'
	# What the package depends on stays when it goes; it is installed beforehand, so that the lists can be compared.
	within "apt-get install -y -qq --no-install-recommends \$(dpkg-deb -f /mnt/dist/$deb Depends | tr ',' '\n' | sed 's/(.*//; s/|.*//')" >"$work/log" 2>&1 || { tail "$work/log" >&2; die "the dependencies cannot be installed"; }
	listing >"$work/before"
	say "Debian 12 with what $deb depends on, $(du -sm --one-file-system "$root" | cut -f1) MB"

	# BEFORE is the package of the release before. The first one has none: it is this one, which says that it is version 0.0.0.
	local none=${number//[0-9]/0}
	if [ -n "${BEFORE:-}" ]; then
		cp "$BEFORE" "$root/mnt/earlier.deb"
	else
		within "dpkg-deb -R /mnt/dist/$deb /mnt/earlier && cd /mnt/earlier && sed -i 's/^Version: .*/Version: $none/' DEBIAN/control &&
			sed -i 's/v${number//./\\.}/v$none/g' usr/bin/pairstream usr/bin/pairstream-tensors && dpkg-deb --root-owner-group -Zgzip -z1 --build . /mnt/earlier.deb >/dev/null"
	fi
	within 'apt-get install -y -qq --no-install-recommends /mnt/earlier.deb' >"$work/log" 2>&1 || { tail "$work/log" >&2; die "the release before cannot be installed"; }
	within "bash /mnt/tests/deploy/release/upgrade.sh pairstream /tmp/upgrade apt-get install -y -qq --no-install-recommends /mnt/dist/$deb"
	[ "$(within "dpkg-query -W -f='\${Version}' pairstream")" = "$number" ] || die "the version is not $number"
	within '/usr/lib/pairstream/encoder --version && pairstream --version && pairstream-tensors --version'
	within 'useradd -m someone && cd /tmp && su someone -c "pairstream synth scenes --scenes 200 --seed 3 && pairstream demo --data scenes --short --epochs 1 --bootstrap-steps 5 --holdout 20 --dir demo"' >"$work/log" 2>&1 || { tail "$work/log" >&2; die "the demo failed"; }
	within 'userdel -r someone' 2>/dev/null
	within 'apt-get purge -y -qq pairstream' >"$work/log" 2>&1
	listing >"$work/after"
	diff "$work/before" "$work/after" | grep -v '^[<>] ./etc/.*-$' | grep '^[<>]' && die "these files were left behind, or are gone"
	say "Debian 12: $deb ran, was upgraded to, and is removed"
	leave
}

wheel() { # suite
	enter "$1"
	within 'bash /mnt/tests/deploy/wheel/test.sh /mnt/dist /tmp/work'
	say "the wheel ran on Debian $1, $(within 'python3 --version')"
	leave
}

debian
wheel bookworm
wheel trixie
