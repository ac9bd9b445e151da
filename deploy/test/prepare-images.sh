#!/usr/bin/env bash
# Prepares a machine that has no Docker engine running or no registry to pull from, so that the images can be built and
# the stack brought up: installs Debian's docker.io, starts dockerd, makes the base images from Debian's packages and
# the machine's Go, makes a stand-in for apache/kafka from Kafka's Maven artifacts, and builds compose.
# Where all that is there already, it does nothing. Needs root on Debian 12 for what is missing.
#
#   prepare-images.sh          prepare
#   prepare-images.sh stop     stop the dockerd that it started
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$root/bin/images
pidfile=$cache/dockerd.pid

base_image=debian:bookworm-slim
go_image=golang:1.26-bookworm
kafka_image=$(sed -n 's/^ *image: *\(apache\/kafka:.*\)$/\1/p' "$root/deploy/compose.yaml")
compose_version=v2.40.3

say() { echo "prepare-images: $*"; }
die() { echo "prepare-images: $*" >&2; exit 1; }
have() { docker image inspect "$1" >/dev/null 2>&1; }
# can_pull asks once whether there is a registry at all: waiting for it again for every image takes minutes.
can_pull() {
	[ -n "${registry:-}" ] || { timeout 30 docker pull -q "$base_image" >/dev/null 2>&1 && registry=yes || registry=no; }
	[ "$registry" = yes ]
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
	as_root apt-get update -qq
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

engine() {
	docker info >/dev/null 2>&1 && return
	command -v dockerd >/dev/null || packages docker.io iptables
	say "starting dockerd (log: $cache/dockerd.log)"
	# Its own session, so that an interrupt of a test does not stop it in the middle of tearing down.
	as_root setsid dockerd --pidfile "$pidfile" >"$cache/dockerd.log" 2>&1 </dev/null &
	for _ in $(seq 60); do
		docker info >/dev/null 2>&1 && return
		sleep 1
	done
	tail -n 20 "$cache/dockerd.log" >&2
	die "dockerd does not start"
}

compose() {
	docker compose version >/dev/null 2>&1 && return
	local plugins=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins module
	say "building compose $compose_version from the Go module proxy"
	module=$(mktemp -d)
	(
		cd "$module"
		go mod init throwaway >/dev/null 2>&1
		go get "github.com/docker/compose/v2/cmd@$compose_version" >/dev/null 2>&1
		go build -trimpath -o docker-compose github.com/docker/compose/v2/cmd
	) || die "compose could not be built"
	mkdir -p "$plugins"
	mv "$module/docker-compose" "$plugins/docker-compose"
	rm -rf "$module"
	docker compose version >/dev/null || die "compose was built but does not run"
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
	as_root debootstrap --variant=minbase --include=ca-certificates bookworm "$tree" >"$cache/debootstrap.log" 2>&1 ||
		die "debootstrap failed: see $cache/debootstrap.log"
	cp /etc/apt/sources.list.d/debian.sources "$tree/etc/apt/sources.list.d/" 2>/dev/null && rm -f "$tree/etc/apt/sources.list"
	rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
	tar -C "$tree" -c . | docker import - "$base_image" >/dev/null
	rm -rf "$tree"
}

golang() {
	{ have "$go_image" || { can_pull && docker pull -q "$go_image"; }; } && return
	say "making $go_image from $base_image and $(go version)"
	local context
	context=$(mktemp -d)
	cp -a "$(go env GOROOT)" "$context/go"
	cp "$here/golang.Dockerfile" "$context/Dockerfile"
	cp /etc/ssl/certs/ca-certificates.crt "$context/" # what this machine trusts, its proxy's authority perhaps
	build_image -t "$go_image" "$context"
	rm -rf "$context"
}

kafka() {
	{ have "$kafka_image" || { can_pull && docker pull -q "$kafka_image"; }; } && return
	say "making a stand-in for $kafka_image from Kafka's Maven artifacts"
	local context
	context=$(mktemp -d)
	cp "$here"/kafka-image/* "$root/deploy/kafka/log4j2.properties" "$context/"
	mvn -q -B -Dstyle.color=never -f "$root/deploy/kafka/pom.xml" dependency:copy-dependencies -DoutputDirectory="$context/libs" >/dev/null ||
		die "Maven could not resolve Kafka"
	build_image -t "$kafka_image" "$context"
	rm -rf "$context"
}

mkdir -p "$cache"
case ${1:-} in
stop)
	[ ! -e "$pidfile" ] || kill "$(cat "$pidfile")"
	;;
"")
	engine
	compose
	base
	golang
	kafka
	;;
*) die "unknown argument $1: want nothing, or stop" ;;
esac
