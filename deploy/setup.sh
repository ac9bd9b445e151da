#!/bin/sh
# Installs what pairstream builds against, from Debian's packages, and checks that the BLAS in use is a fast one.
# Called by the Makefile; safe to run again: it does nothing when nothing is missing.
#
#   setup.sh            what pairstream builds against
#   setup.sh peers      what `make bench` measures pairstream beside
#   setup.sh kafka      what runs Apache Kafka for `make test-kafka` and `make bench`
#   setup.sh console    the browser of `make test-console`; `setup.sh npm` its package manager, where there is none
#   setup.sh release    what packs a release
#   setup.sh cross      what builds for arm64 on amd64, and runs that
#   setup.sh python     what the tests of the Python clients need beside pip's packages
set -eu

case "${1:-}" in
"")
	packages="g++ make pkg-config libtorch-dev libfaiss-dev libopenblas-dev libturbojpeg0-dev"
	why="libtorch trains, FAISS indexes, OpenBLAS multiplies, libjpeg-turbo decodes photographs, g++ builds the bindings"
	;;
peers)
	packages="python3-torch python3-faiss python3-pil"
	why="pairstream is measured beside PyTorch, FAISS and PIL"
	;;
kafka)
	packages="openjdk-17-jre-headless maven"
	why="Apache Kafka runs on Java, and Maven resolves it"
	;;
console)
	packages="chromium fonts-dejavu-core"
	why="the console's pages are opened in a real browser"
	;;
release)
	packages="dpkg-dev ca-certificates"
	why="they find the dependencies of the Debian package, and hold the authorities of the image"
	;;
cross)
	packages="g++-aarch64-linux-gnu qemu-user-static"
	why="they build for arm64, and run what was built"
	;;
npm)
	packages="npm"
	why="axe-core, which looks for what keeps people from using a page, comes from npm"
	;;
python)
	packages="python3-venv python3-pip python3-torch python3-pil"
	why="the clients' packages go into a virtual environment, and are tested with the oldest PyTorch and Pillow they allow"
	;;
*)
	echo "setup: $1 is no set of packages; want nothing, peers, kafka, console, release, cross, npm or python" >&2
	exit 2
	;;
esac

missing=
for package in $packages; do
	dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done

if [ -n "$missing" ]; then
	install="apt-get install -y --no-install-recommends$missing"
	if [ "$(id -u)" = 0 ]; then
		sudo=
	elif command -v sudo >/dev/null 2>&1; then
		sudo=sudo
	else
		echo "setup: missing packages; as root, run: apt-get update && $install" >&2
		exit 1
	fi
	echo "setup: installing$missing ($why)"
	# One installation at a time: apt does not wait for another one.
	if ! $sudo flock /run/pairstream-apt.lock env DEBIAN_FRONTEND=noninteractive \
		sh -c "apt-get update -qq && $install -qq" >/tmp/pairstream-setup.$$ 2>&1; then
		cat /tmp/pairstream-setup.$$ >&2 2>/dev/null || true
		rm -f /tmp/pairstream-setup.$$
		echo "setup: could not install; run: ${sudo:+$sudo }apt-get update && ${sudo:+$sudo }$install" >&2
		exit 1
	fi
	rm -f /tmp/pairstream-setup.$$
fi

if ! command -v go >/dev/null 2>&1; then
	echo "setup: Go is missing; pairstream builds with Go 1.26 or later" >&2
	exit 1
fi

# libtorch calls whatever libblas.so.3 the system points at; the reference BLAS is ten times slower than OpenBLAS.
blas=$(readlink -f "/usr/lib/$(gcc -dumpmachine)/libblas.so.3" 2>/dev/null || true)
case "$blas" in
*openblas* | *mkl* | *blis*) ;;
*) echo "setup: the BLAS in use is ${blas:-unknown}, ten times slower than OpenBLAS; choose it with: update-alternatives --config libblas.so.3-$(gcc -dumpmachine)" >&2 ;;
esac
