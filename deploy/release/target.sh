# What to build for: $ARCH as Debian calls it, or this machine's architecture. To be read by shells, in the repository.
# It sets ARCH, triple, debian (the folder below which that architecture's packages lie) and the function for_target.
host=$(dpkg --print-architecture)
: "${ARCH:=$host}"
debian=
case $ARCH in
amd64) triple=x86_64-linux-gnu ;;
arm64) triple=aarch64-linux-gnu ;;
*) echo "ARCH is \"$ARCH\", want amd64 or arm64" >&2; exit 2 ;;
esac
if [ "$ARCH" != "$host" ]; then
	command -v "$triple-g++" >/dev/null || { echo "no $triple-g++, which ARCH=$ARCH on $host wants: deploy/setup.sh cross" >&2; exit 2; }
	debian=$(deploy/release/sysroot.sh "$ARCH")
fi

# for_target runs a command of Go for that architecture. Where the folder lies is in no object.
for_target() {
	if [ -z "$debian" ]; then "$@"; return; fi
	env GOOS=linux GOARCH="$ARCH" CGO_ENABLED="${CGO_ENABLED:-1}" CC="$triple-gcc --sysroot=$debian" CXX="$triple-g++ --sysroot=$debian" \
		CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} -ffile-prefix-map=$debian=" \
		CGO_CXXFLAGS="${CGO_CXXFLAGS:--O2 -g} -ffile-prefix-map=$debian= -I$debian/usr/include/torch/csrc/api/include" \
		CGO_LDFLAGS="${CGO_LDFLAGS:-} -Wl,--allow-shlib-undefined" "$@"
}
