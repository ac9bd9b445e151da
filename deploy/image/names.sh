#!/bin/sh
# Puts the binaries of an image where they belong, and makes the folders on which volumes are mounted. Runs inside the
# build stages of deploy/Dockerfile and deploy/Dockerfile.cuda.
#
#   names.sh BINARIES ROOTFS      BINARIES/static and BINARIES/shared hold what was built, BINARIES/languages.zip what tells languages.
#                             VOLUMES is where the folders of volumes are made, /volumes
set -eu
binaries=$1 root=$2

bin=$root/usr/local/bin
mkdir -p "$bin"
cp "$binaries/static/pairstream" "$bin/pairstream"
cp "$binaries/shared/pairstream-tensors" "$bin/pairstream-tensors"
for name in encoder indexer grouper discriminator trainer; do
	ln -s pairstream "$bin/$name"
done
# The models of languages are found beside the programs' folder.
mkdir -p "$root/usr/local/share/pairstream"
cp "$binaries/languages.zip" "$root/usr/local/share/pairstream/languages.zip"

for folder in data spool models checkpoints console; do
	mkdir -p "${VOLUMES:-/volumes}/$folder"
done
