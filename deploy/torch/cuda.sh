#!/bin/sh
# Prints a folder with `lib`, the libraries of PyPI's PyTorch and of the CUDA that it asks for, and `notes`, their licences. It
# fetches them once into the user's cache.
#
#   CUDA=$(deploy/torch/cuda.sh)      TORCH_VERSION is the version
set -eu
version=${TORCH_VERSION:-2.11.0}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pairstream/torch-$version-cuda
if [ ! -d "$cache" ]; then
	echo "torch: fetching PyTorch $version with CUDA, 3 GB, into $cache" >&2
	part=$cache.part
	rm -rf "$part" && mkdir -p "$part/wheels"
	platforms=$(for glibc in 28 27 26 25 24 18 17 12 5; do echo "--platform manylinux_2_${glibc}_x86_64"; done)
	# shellcheck disable=SC2086 # a word for each
	python3 -m pip download -q --disable-pip-version-check --only-binary=:all: --python-version 3.12 --implementation cp $platforms --platform manylinux2014_x86_64 \
		--platform manylinux2010_x86_64 --platform manylinux1_x86_64 -d "$part/wheels" "torch==$version" >&2
	python3 - "$part" <<-'P'
	import glob, os, re, shutil, sys, zipfile
	folder = sys.argv[1]
	os.mkdir(folder + "/lib")
	for wheel in sorted(glob.glob(folder + "/wheels/*.whl")):
	    name = os.path.basename(wheel).split("-")[0]
	    if name != "torch" and not name.startswith("nvidia_"):
	        continue
	    with zipfile.ZipFile(wheel) as z:
	        for member in z.namelist():
	            base = os.path.basename(member)
	            if re.match(r"(torch|nvidia)/(.*/)?lib/lib[^/]*\.so[.0-9]*$", member) and not base.startswith(("libtorch_python", "libtorch_global_deps", "libshm")):
	                to = f"{folder}/lib/{base}"
	            elif ".dist-info/" in member and re.match(r"(LICEN|NOTICE|COPYING)", base, re.IGNORECASE):
	                to = f"{folder}/notes/{name}/{base}"
	            else:
	                continue
	            os.makedirs(os.path.dirname(to), exist_ok=True)
	            with z.open(member) as source, open(to, "xb") as target:
	                shutil.copyfileobj(source, target, 1 << 20)
	shutil.rmtree(folder + "/wheels")
	P
	mv "$part" "$cache"
fi
echo "$cache"
