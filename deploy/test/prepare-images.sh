#!/usr/bin/env bash
# Prepares a machine that has no Docker engine running or no registry to pull from, so that the images can be built and
# the stack brought up: installs Debian's docker.io, starts dockerd, makes the base images from Debian's packages and
# the machine's Go, makes a stand-in for apache/kafka from Kafka's Maven artifacts, and builds compose.
# Where all that is there already, it does nothing. Needs root on Debian 12 for what is missing.
#
#   prepare-images.sh          prepare
#   prepare-images.sh stop     stop the dockerd that it started, and with it every container
#   prepare-images.sh clean    stop it, and remove its images and volumes
#
# A dockerd that it starts keeps its data in PAIRSTREAM_DOCKER_DATA, apart from those of an installation of yours. What earlier
# runs left there without a name is removed each time, so that the folder does not grow with every change.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${PAIRSTREAM_DOCKER_DATA:-/var/tmp/pairstream-docker}
logs=$data/logs
. "$here/../own.sh"
pidfile=$data/dockerd.pid

base_image=debian:bookworm-slim
go_image=golang:1.26-bookworm
kafka_image=$(sed -n 's/^ *image: *\(apache\/kafka:.*\)$/\1/p' "$root/deploy/compose.yaml")
compose_version=v2.40.3

say() { printf 'prepare-images: %4d s  %s\n' $SECONDS "$*"; }
die() { echo "prepare-images: $*" >&2; exit 1; }
# check_data refuses a folder of the user's, which clean would remove.
check_data() { [ "$data" = /var/tmp/pairstream-docker ] || own_or_die "$data" prepare-images.sh; }
have() { docker image inspect "$1" >/dev/null 2>&1; }
# can_pull asks once whether there is a registry at all: waiting for it again for every image takes minutes.
can_pull() {
	[ -n "${registry:-}" ] || { timeout 30 docker pull -q "$base_image" >/dev/null 2>&1 && registry=yes || registry=no; }
	[ "$registry" = yes ]
}

free() { df --output=avail -BG "$data" | tail -n 1 | tr -dc 0-9; } # gigabytes

# room says so when the disk is too small for what comes next, which would else fail in the middle of it. Before that, it
# removes the layers that builds keep, in a dockerd of its own: they can be made again.
room() { # gigabytes, for what
	if [ "$(free)" -lt "$1" ] && [ -e "$pidfile" ]; then
		say "removing what earlier builds keep, since $data has $(free) GB free"
		docker builder prune -af >"$logs/room.log" 2>&1 || die "it could not be removed: $(tail -n 5 "$logs/room.log")"
	fi
	[ "$(free)" -ge "$1" ] || die "$2 takes up to $1 GB, and $data has $(free) GB free: free some, or name another disk's folder in PAIRSTREAM_DOCKER_DATA"
}

as_root() {
	[ "$(id -u)" = 0 ] || die "$* needs root: run this as root once, or install and start Docker yourself"
	"$@"
}

packages() { # install the missing ones of "$@"
	local missing=()
	for package in "$@"; do
		dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
	done
	[ ${#missing[@]} = 0 ] && return
	say "installing ${missing[*]}"
	as_root flock /run/pairstream-apt.lock env DEBIAN_FRONTEND=noninteractive \
		sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends ${missing[*]}" >"$logs/apt.log" 2>&1 ||
		die "could not install ${missing[*]}: $(tail -n 5 "$logs/apt.log")"
}

# daemon runs a command in a session of its own, so that an interrupt of a test does not stop it in the middle of tearing
# down, and without the files that its caller has open: a lock among them would last as long as the daemon.
daemon() {
	local fd
	for fd in /proc/self/fd/*; do
		fd=${fd##*/}
		[ "$fd" -le 2 ] || [ "$fd" = 255 ] || eval "exec $fd>&-"
	done
	exec setsid "$@"
}

engine() {
	docker info >/dev/null 2>&1 && return
	command -v dockerd >/dev/null || packages docker.io iptables
	docker info >/dev/null 2>&1 && return # its package may have started it
	say "starting dockerd, with its data in $data"
	as_root true
	daemon dockerd --data-root "$data/root" --pidfile "$pidfile" >"$logs/dockerd.log" 2>&1 </dev/null &
	local started=$!
	for _ in $(seq 60); do
		docker info >/dev/null 2>&1 && return
		kill -0 "$started" 2>/dev/null || break
		sleep 1
	done
	echo "prepare-images: the end of $logs/dockerd.log:" >&2
	tail -n 10 "$logs/dockerd.log" >&2
	stop
	die "the Docker engine does not start: dockerd needs root, control groups, overlayfs and iptables"
}

# tidy removes containers that ended, images without a name and the oldest layers of builds, in a dockerd of its own only.
tidy() {
	[ -e "$pidfile" ] || return 0
	{ docker container prune -f && docker image prune -f && docker builder prune -f --keep-storage 4GB; } >"$logs/tidy.log" 2>&1 ||
		die "what earlier runs left could not be removed: $(tail -n 5 "$logs/tidy.log")"
}

stop() {
	[ -e "$pidfile" ] || return 0
	local pid
	pid=$(cat "$pidfile")
	kill "$pid" 2>/dev/null || true
	for _ in $(seq 60); do
		kill -0 "$pid" 2>/dev/null || { rm -f "$pidfile"; return 0; }
		sleep 1
	done
	die "dockerd, process $pid, does not end"
}

compose() {
	docker compose version >/dev/null 2>&1 && return
	local plugins=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins module
	say "building compose $compose_version from the Go module proxy"
	module=$(mktemp -d)
	(
		cd "$module"
		go mod init throwaway
		go get "github.com/docker/compose/v2/cmd@$compose_version"
		go build -trimpath -ldflags '-s -w' -o docker-compose github.com/docker/compose/v2/cmd
	) >"$logs/compose.log" 2>&1 || die "compose could not be built: $(tail -n 5 "$logs/compose.log")"
	mkdir -p "$plugins"
	mv "$module/docker-compose" "$plugins/docker-compose"
	rm -rf "$module"
	docker compose version >/dev/null || die "compose was built but does not run"
	say "compose is built"
}

build_image() { # like docker build, silent unless it fails
	local out
	out=$(docker build "$@" 2>&1) || die "docker build $*: $out"
}

base() {
	{ have "$base_image" || can_pull; } && return
	packages debootstrap
	say "making $base_image from Debian's packages"
	local tree
	tree=$(mktemp -d)
	as_root debootstrap --variant=minbase --include=ca-certificates bookworm "$tree" >"$logs/debootstrap.log" 2>&1 ||
		die "debootstrap failed: $(tail -n 5 "$logs/debootstrap.log")"
	cp /etc/apt/sources.list.d/debian.sources "$tree/etc/apt/sources.list.d/" 2>/dev/null && rm -f "$tree/etc/apt/sources.list"
	rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
	# As in the real image: nothing is synced while packages are installed, and their manuals are left out.
	printf '%s\n' force-unsafe-io 'path-exclude /usr/share/doc/*' 'path-include /usr/share/doc/*/copyright' \
		'path-exclude /usr/share/man/*' 'path-exclude /usr/share/locale/*' >"$tree/etc/dpkg/dpkg.cfg.d/docker"
	tar -C "$tree" -c . | docker import - "$base_image" >/dev/null
	rm -rf "$tree"
}

golang() {
	local tree container modules
	modules=$(sha256sum <"$root/go.sum" | cut -d ' ' -f 1)
	if have "$go_image"; then
		case $(docker image inspect -f '{{json .Config}}' "$go_image") in
		*"$modules"*) return ;;
		*file:///opt/modules*) say "$go_image was made for other modules" ;; # by this script
		*) return ;;                                                         # the real one
		esac
	else
		can_pull && docker pull -q "$go_image" && return
	fi
	room 8 "making $go_image"
	say "making $go_image from $base_image and $(go version), with what is compiled here already"
	tree=$(mktemp -d)
	(cd "$here" && go run ./gocache "$tree/opt" "$root" ./services/pairstream ./services/pairstream) ||
		die "the caches of Go could not be copied"
	mkdir -p "$tree/usr/local/go" # where the real image has it
	cp /etc/ssl/certs/ca-certificates.crt "$tree/opt/machine.crt" # whom this machine trusts, its proxy's authority perhaps
	# Not docker build, which would write each of the thousands of files four times. The caches are not where
	# deploy/Dockerfile mounts its own.
	container=$(docker create "$base_image" true)
	tar -C "$tree" -c opt usr | docker cp - "$container":/
	tar -C "$(go env GOROOT)" -c . | docker cp - "$container":/usr/local/go/
	docker commit --change 'ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
		--change "ENV GOPATH=/go GOTOOLCHAIN=local GOCACHE=/opt/build GOPROXY=file:///opt/modules" \
		--change "LABEL go.sum=$modules" --change 'ENV SSL_CERT_FILE=/opt/machine.crt' "$container" "$go_image" >/dev/null
	docker rm "$container" >/dev/null
	rm -rf "$tree"
	tidy # the image that was made for other modules
	say "$go_image is made"
}

kafka() {
	{ have "$kafka_image" || { can_pull && docker pull -q "$kafka_image"; }; } && return
	packages maven
	say "making a stand-in for $kafka_image from Kafka's Maven artifacts"
	local context
	context=$(mktemp -d)
	cp "$here"/kafka-image/* "$root/deploy/kafka/log4j2.properties" "$context/"
	mvn -q -B -Dstyle.color=never -f "$root/deploy/kafka/pom.xml" dependency:copy-dependencies -DoutputDirectory="$context/libs" >"$logs/maven.log" 2>&1 ||
		die "Maven could not resolve Kafka: $(tail -n 5 "$logs/maven.log")"
	build_image -t "$kafka_image" "$context"
	rm -rf "$context"
	say "$kafka_image is made"
}

prepare() {
	check_data
	mkdir -p "$logs"
	echo prepare-images.sh >"$data/.pairstream"
	engine
	tidy
	room 4 "the stack with its images"
	export TMPDIR=$data/scratch # not the daemon's, which outlives it
	trap 'rm -rf "$TMPDIR"' EXIT
	rm -rf "$TMPDIR" && mkdir "$TMPDIR"
	# Compose is compiled while Debian's packages are downloaded.
	compose &
	local compiling=$!
	base
	kafka &
	local downloading=$!
	golang
	wait $downloading
	wait $compiling
	say "ready"
}

case ${1:-} in
stop) stop ;;
clean)
	check_data
	stop
	[ ! -e "$data" ] || as_root rm -rf "$data"
	;;
"") prepare ;;
*) die "unknown argument $1: want nothing, stop or clean" ;;
esac
