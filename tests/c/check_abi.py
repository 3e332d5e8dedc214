"""What the headers promise programs that were built for the last release, compared with what they say now.

  check_abi.py RELEASE INCLUDE EXPORTS [CC]     fails if a program of RELEASE could meet something else
  check_abi.py RELEASE INCLUDE EXPORTS --renew  writes RELEASE: at each release; then run tools/format.sh

RELEASE is a folder of tests/golden/abi: its headers without comments, its exports.map, the names of its stable functions
(provisional ones may change), and its example, which c.old_program builds with these headers and runs on the library of today.
Version 1.0.0 is not released yet, so that the folder holds what was stable when it was written last. From the headers a library of empty functions is compiled, with debug information, and so is one
from INCLUDE; abidiff compares them. What it cannot see, the values of constants, is compared by compiling both. Fields may be
appended to structs that state their size; functions and constants may be added. Then the same is done with headers that were
spoilt, each of which must be refused.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

APPENDED_FIELDS = """
[suppress_type]
  type_kind = struct
  name_regexp = ^assay_
  name_not_regexp = ^assay_(str|ext|device_id|comm_id)$
  has_data_member_inserted_at = end
"""


def read_headers(folder):
    return {path.name: path.read_text() for path in sorted(pathlib.Path(folder).glob("*.h"))}


def without_comments(text):
    return re.sub(r"[ \t]+\n", "\n", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def functions(headers):
    """name: declaration."""
    found = {}
    for text in headers.values():
        for declaration in re.findall(r"^ASSAY_API ([^;]*);", without_comments(text), re.M):
            found[re.search(r"(assay_\w+)\(", declaration)[1]] = declaration
    return found


def stable_functions(headers):
    names = set()
    for text in headers.values():
        comment = ""
        for part in re.finditer(r"/\*(.*?)\*/|^ASSAY_API [^;]*?(assay_\w+)\(", text, re.S | re.M):
            if part[2] and re.search(r"since [0-9.]+, stable", comment):
                names.add(part[2])
            comment = part[1] or comment
    return names


def constants(headers):
    names = set()
    for text in headers.values():
        for body in re.findall(r"\benum\b[^{;]*\{(.*?)\}", without_comments(text), re.S):
            names |= set(re.findall(r"\b(ASSAY_\w+)\b\s*(?:=|,|$)", body))
    return names


class Interface:
    def __init__(self, headers, exports, cc):
        self.headers, self.exports, self.cc = headers, exports, cc

    def compile(self, folder, name, code, *options):
        include = folder / f"{name}.include" / "assay"
        include.mkdir(parents=True)
        for header, text in self.headers.items():
            (include / header).write_text(text)
        source = folder / f"{name}.c"
        source.write_text("".join(f"#include <assay/{header}>\n" for header in self.headers) + code)
        subprocess.run([self.cc, "-std=c11", "-w", f"-I{include.parent}", source, *options], check=True)

    def library(self, folder, name, chosen):
        """A library of the chosen functions, which do nothing."""
        (folder / f"{name}.map").write_text(self.exports)
        code = "".join(f"{declaration} {{ __builtin_trap(); }}\n" for function, declaration in functions(self.headers).items()
                       if function in chosen)  # fmt: skip
        path = folder / f"{name}.so"
        self.compile(folder, name, code, "-g", "-shared", "-fPIC", f"-Wl,--version-script={folder / name}.map",
                     "-Wl,-soname,libassay.so.1", "-o", path)  # fmt: skip
        return path

    def values(self, folder, name, chosen):
        lines = "".join(f'  printf("{constant} %lld\\n", (long long)({constant}));\n' for constant in sorted(chosen))
        path = folder / name
        self.compile(folder, name, f"#include <stdio.h>\nint main(void) {{\n{lines}  return 0;\n}}\n", "-o", path)
        return subprocess.run([path], check=True, capture_output=True, text=True).stdout.splitlines()


def differences(release, stable, now):
    """What is wrong with `now` for a program of `release`; empty: nothing."""
    gone = stable - functions(now.headers).keys()
    gone |= constants(release.headers) - constants(now.headers)
    if gone:
        return "gone: " + ", ".join(sorted(gone))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "appended").write_text(APPENDED_FIELDS)
        old, new = release.library(folder, "old", stable), now.library(folder, "new", stable)
        result = subprocess.run(["abidiff", "--suppressions", folder / "appended", old, new], capture_output=True, text=True)
        if result.returncode & 3:
            sys.exit(f"abidiff failed: {result.stdout}{result.stderr}")
        chosen = constants(release.headers)
        changed = set(now.values(folder, "new_values", chosen)) - set(release.values(folder, "old_values", chosen))
        return (result.stdout if result.returncode else "") + "".join(f"now {line}\n" for line in sorted(changed))


def spoilt(headers):
    """Headers that must be refused, and such that must not: (what was done, headers, refused)."""

    def changed(what, pattern, by, refused=True):
        text, count = re.subn(pattern, by, headers["assay.h"], count=1)
        if count != 1:
            sys.exit(f"check_abi.py cannot spoil the headers: {what}")
        return what, {**headers, "assay.h": text}, refused

    yield changed("a field in the middle", r"(  int64_t eval_batch_size;)", r"  int64_t more;\n\1")
    yield changed("a field of another type", r"int64_t eval_batch_size;", "int32_t eval_batch_size; int32_t more;")
    yield changed("a field at the end", r"(\} assay_trainer_options;)", r"  int64_t more;\n\1", False)
    yield changed("a field in a struct that is passed by value", r"(\} assay_str;)", r"  int64_t more;\n\1")
    yield changed("another parameter", r"(ASSAY_API assay_status assay_model_initialize\(assay_model \*m, )uint64_t", r"\1uint32_t")
    yield changed("a function that is gone", r"assay_error_free\(", "assay_error_delete(")
    yield changed("a function that is new", r"(ASSAY_API void assay_error_free)", r"ASSAY_API void assay_error_new(void);\n\1", False)
    yield changed("a constant of another value", r"ASSAY_BF16 = 2", "ASSAY_BF16 = 12")


def main():
    release_folder, include, exports = map(pathlib.Path, sys.argv[1:4])
    headers = read_headers(include / "assay")
    stable_list = release_folder / "stable_functions.txt"
    if "--renew" in sys.argv:
        shutil.rmtree(release_folder, ignore_errors=True)
        (release_folder / "assay").mkdir(parents=True)
        for name, text in headers.items():
            (release_folder / "assay" / name).write_text(re.sub(r"\n{3,}", "\n\n", without_comments(text).lstrip()))
        shutil.copy(exports, release_folder)
        shutil.copy(exports.parent / "examples" / "train_and_serve.c", release_folder)
        stable_list.write_text("".join(f"{name}\n" for name in sorted(stable_functions(headers))))
        return
    if shutil.which("abidiff") is None:
        print("abidiff is not installed (abigail-tools)")
        sys.exit(77)
    cc = sys.argv[4]
    release = Interface(read_headers(release_folder / "assay"), (release_folder / exports.name).read_text(), cc)
    stable = set(stable_list.read_text().split())
    if len(stable) < 40 or len(constants(release.headers)) < 40:
        sys.exit(f"{release_folder} holds only {len(stable)} stable functions")
    wrong = differences(release, stable, Interface(headers, exports.read_text(), cc))
    if wrong:
        sys.exit(f"{wrong}\nA program built for {release_folder.name} would meet this. Stable functions only grow: see assay.h.")
    for what, changed, refused in spoilt(headers):
        if refused != bool(differences(release, stable, Interface(changed, exports.read_text(), cc))):
            sys.exit(f"{what}: this should have been {'refused' if refused else 'accepted'}")


main()
