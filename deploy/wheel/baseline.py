"""Writes libraries to link with that have no symbol newer than manylinux_2_28: glibc 2.28, and the libstdc++ of GCC 8.

    baseline.py FOLDER COMPILER LIBRARY...     such as libc.so.6 and libstdc++.so.6 of this machine

The linker takes the newest version of a symbol that a library has. A program for older systems wants an older version,
which the machine's library still has for the programs of then. Each library that is written has that version alone, and no
code: programs are linked with it, and run on the system's own. A symbol that is newer altogether is missing, so that the
linker says so.
"""

import subprocess
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

# The newest versions of manylinux_2_28.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11)}
# Where a symbol of a type lies, and how the assembler calls the type; all others are functions.
SECTIONS = {"STT_OBJECT": (".data", "object"), "STT_TLS": ('.tbss, "awT", %nobits', "tls_object")}


def parsed(version: str) -> tuple[int, ...] | None:
    """Return a version as numbers where old systems have it: GLIBC_2.2.5 is (2, 2, 5)."""
    name, _, number = version.partition("_")
    if name not in NEWEST or not number.replace(".", "").isdigit():
        return None
    numbers = tuple(int(part) for part in number.split("."))
    return numbers if numbers <= NEWEST[name] else None


def symbols(library: ELFFile) -> dict[str, tuple[tuple[int, ...], str, str, int]]:
    """Return for each symbol the newest version that old systems have, as numbers and text, its type and size."""
    names = {}
    for definition, auxiliaries in library.get_section_by_name(".gnu.version_d").iter_versions():
        names[definition["vd_ndx"]] = next(auxiliaries).name
    best: dict[str, tuple[tuple[int, ...], str, str, int]] = {}
    versions = library.get_section_by_name(".gnu.version")
    for i, symbol in enumerate(library.get_section_by_name(".dynsym").iter_symbols()):
        index = versions.get_symbol(i)["ndx"]
        if symbol["st_shndx"] == "SHN_UNDEF" or not isinstance(index, int):
            continue
        text = names.get(index & 0x7FFF, "")
        numbers = parsed(text)
        if numbers is not None and symbol["st_shndx"] != "SHN_ABS" and (symbol.name not in best or numbers > best[symbol.name][0]):
            best[symbol.name] = (numbers, text, symbol["st_info"]["type"], symbol["st_size"])
    return best


def write(folder: Path, compiler: str, path: Path) -> None:
    """Write the library beside its assembly, under the name that -l looks for."""
    with path.open("rb") as file:
        library = ELFFile(file)
        found = symbols(library)
        soname = next(tag.soname for tag in library.get_section_by_name(".dynamic").iter_tags() if tag["d_tag"] == "DT_SONAME")
    lines = []
    for i, (name, (_, version, kind, size)) in enumerate(sorted(found.items())):
        section, what = SECTIONS.get(kind, (".text", "function"))
        lines += [f".section {section}", f".globl own{i}", f".type own{i}, %{what}", f".size own{i}, {size}"]
        lines += [f"own{i}: .zero {1 if what == 'function' else size}", f".symver own{i}, {name}@@{version}"]
    name = soname.split(".so")[0]
    source, script = folder / f"{name}.S", folder / f"{name}.map"
    source.write_text("\n".join([*lines, '.section .note.GNU-stack, "", %progbits', ""]))
    versions = sorted({version for _, version, _, _ in found.values()})
    script.write_text("".join(f"{version} {{ {'local: own*;' if i == 0 else ''} }};\n" for i, version in enumerate(versions)))
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,--soname={soname}", f"-Wl,--version-script={script}", str(source), "-o", str(folder / f"{name}.so")], check=True)


def main(folder: str, compiler: str, *libraries: str) -> None:
    for library in libraries:
        write(Path(folder), compiler, Path(library))


main(*sys.argv[1:])
