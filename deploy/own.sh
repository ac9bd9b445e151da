# To be sourced. What a script empties or removes must be its own: internal/base/ownedfolder has the same rule for commands.
#
#   own FOLDER KIND     makes an empty folder with the marker of a kind. It refuses one that holds files and no such marker,
#                       unless the folder lies in the repository's bin
#   own_or_die FOLDER KIND    refuses the same folders, and touches nothing

own_or_die() {
	[ -e "$1" ] || [ -L "$1" ] || return 0
	if [ -d "$1" ]; then
		[ -n "$(ls -A -- "$1")" ] || return 0
		[ ! -f "$1/.pairstream" ] || [ "$(head -n 1 "$1/.pairstream")" != "$2" ] || return 0
		case $(realpath -- "$1") in "$(git rev-parse --show-toplevel 2>/dev/null || echo /nowhere)"/bin/*) return 0 ;; esac
	fi
	echo "$2: the folder $1 holds files and no marker .pairstream of $2, which would remove them: name a new folder, or empty this one yourself" >&2
	exit 1
}

own() {
	own_or_die "$1" "$2"
	mkdir -p -- "$1" && find "$(realpath -- "$1")" -mindepth 1 -delete && printf '%s\n' "$2" >"$1/.pairstream"
}
