#!/bin/sh
# Lays the programs and the models of languages out as they are installed below a prefix.
#
#   tree.sh BINARIES PREFIX     BINARIES/static and BINARIES/shared hold what was built, BINARIES/languages.zip what tells languages
set -eu
binaries=$1 prefix=$2
mkdir -p "$prefix/bin" "$prefix/lib/pairstream" "$prefix/share/pairstream"
cp "$binaries/static/pairstream" "$prefix/bin/pairstream"
cp "$binaries/shared/pairstream-tensors" "$prefix/bin/pairstream-tensors"
# Under its name the program is a stage; these names are too common for a folder that all programs share.
for name in encoder indexer grouper discriminator trainer; do
	ln -s ../../bin/pairstream "$prefix/lib/pairstream/$name"
done
cp "$binaries/languages.zip" "$prefix/share/pairstream/languages.zip"
