#!/bin/sh
# Prints the notes of a release: its section of the changes, or what is not released yet where it has none.
#
#   notes.sh v1.2.3 CHANGELOG.md
set -eu
version=$1 changes=$2
section() { awk -v want="## $1" 'index($0, "## ") == 1 {inside = ($0 == want || index($0, want " ") == 1); next} inside' "$changes"; }
text=$(section "$version")
[ -n "$text" ] || text=$(section Unreleased)
[ -n "$text" ] || { echo "notes: $changes has neither a section \"$version\" nor \"Unreleased\"" >&2; exit 1; }
# Links lead to the documents of this version.
home=https://github.com/pairstream/pairstream/blob/$version
printf '# pairstream %s\n\n%s\n' "$version" "$(printf '%s' "$text" | sed "/./,\$!d; s#](\([^)#:]*\.md[^):]*\))#]($home/\1)#g")"
