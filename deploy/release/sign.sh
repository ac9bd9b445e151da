#!/bin/sh
# Signs a file with minisign, where RELEASE_KEY names a secret key. Otherwise it says that nothing is signed.
set -eu
if [ -z "${RELEASE_KEY:-}" ]; then
	echo "release: not signed: RELEASE_KEY names no secret key of minisign"
	exit 0
fi
command -v minisign >/dev/null || { echo "release: RELEASE_KEY is set, and minisign is missing: apt-get install minisign" >&2; exit 1; }
minisign -S -s "$RELEASE_KEY" -m "$1"
