"""What nvcc makes of the CUDA kernels for an H200: registers, stack frames, spills, how inner loops read, and divisions
of 64 bits, each a call of about 70 instructions.

  kernel_resources.py NVCC SOURCE_DIR LIST [--update]

Lines of LIST: registers, bytes of stack, innermost loops that read packs of 16 bytes and single elements as well,
divisions of 64 bits, kernel. More than listed of any is a failure, and so are spills and kernels that are not listed. Registers and stack
are compared with the compiler that the first line names, and left alone with others. No GPU is needed. --update
writes LIST.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ARCHITECTURE = "sm_90a"


def compiled(nvcc, root, source, folder):
    """PTX, and what ptxas says of it."""
    ptx = folder / (source.stem + ".ptx")
    flags = ["-O3", "-std=c++20", "-fmad=false", f"-arch={ARCHITECTURE}", f"-I{root}"]
    subprocess.run([nvcc, *flags, "-ptx", str(source), "-o", str(ptx)], check=True)
    ptxas = pathlib.Path(nvcc).resolve().parent / "ptxas"
    command = [str(ptxas), f"-arch={ARCHITECTURE}", "-O3", "-v", str(ptx), "-o", os.devnull]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return ptx.read_text(), said


def resources(said):
    """Mangled name -> registers, bytes of stack, bytes spilled."""
    pattern = re.compile(r"Compiling entry function '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                         r"(\d+) bytes spill loads.*?Used (\d+) registers", re.S)
    return {m[1]: (int(m[5]), int(m[2]), int(m[3]) + int(m[4])) for m in pattern.finditer(said)}


def bodies(ptx):
    """Mangled name -> lines of the kernel."""
    return {m[1]: m[2].splitlines() for m in re.finditer(r"\.entry (\w+)\(.*?\n\{\n(.*?)\n\}\n", ptx, re.S)}


def mixed_loops(lines):
    """How many innermost loops read packs and single elements from global memory."""
    labels = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"(\$\w+):", line))}
    loops = []
    for i, line in enumerate(lines):
        target = re.search(r"\bbra(?:\.uni)?\s+(\$\w+);", line)
        if target and labels.get(target[1], i) < i:
            loops.append((labels[target[1]], i))
    innermost = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    mixed = 0
    for begin, end in innermost:
        reads = [m[0] for line in lines[begin:end] if (m := re.search(r"ld\.global[\w.]*", line))]
        mixed += 0 < sum(".v4." in read for read in reads) < len(reads)
    return mixed


def long_divisions(lines):
    return sum(re.search(r"\b(div|rem)\.[su]64\b", line) is not None for line in lines)


def readable(names):
    """Demangled, without what the compiler adds to anonymous namespaces."""
    out = subprocess.run(["c++filt", *names], check=True, capture_output=True, text=True).stdout.splitlines()
    own = re.compile(r"assay::cuda::kernels::|\(anonymous namespace\)::|_GLOBAL__N__\w+::|_INTERNAL_\w+::")
    return {name: own.sub("", text) for name, text in zip(names, out)}


def version(nvcc):
    return subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def main():
    nvcc, root, listed = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    sources = sorted((root / "sdk/backend/cuda/kernels").glob("*.cu"))
    rows, wrong = {}, []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(lambda source: compiled(nvcc, root, source, pathlib.Path(folder)), sources))
    for source, (ptx, said) in zip(sources, parts):
        used, code = resources(said), bodies(ptx)
        names = readable(list(used))
        for name, (registers, stack, spilled) in used.items():
            kernel = f"{source.stem}: {names[name]}"
            rows[kernel] = (registers, stack, mixed_loops(code[name]), long_divisions(code[name]))
            if spilled:
                wrong.append(f"{kernel} spills {spilled} bytes")
    if "--update" in sys.argv:
        lines = ["\t".join(map(str, found)) + f"\t{kernel}\n" for kernel, found in sorted(rows.items())]
        listed.write_text(version(nvcc) + "\n" + "".join(lines))
    compiler, *lines = listed.read_text().splitlines()
    known = {line[4]: tuple(map(int, line[:4])) for line in (text.split("\t") for text in lines)}
    what = ("registers", "bytes of stack", "loops that read packs and single elements",
            "divisions of 64 bits")
    for kernel, found in rows.items():
        most = known.get(kernel)
        if most is None:
            wrong.append(f"{kernel} is not listed")
            continue
        for i in range(0 if compiler == version(nvcc) else 2, 4):
            if found[i] > most[i]:
                wrong.append(f"{kernel} has {found[i]} {what[i]}, {most[i]} are listed")
    wrong += [f"{kernel} is listed and gone" for kernel in known.keys() - rows.keys()]
    print("\n".join(sorted(wrong)) or f"{len(rows)} kernels as listed")
    return 1 if wrong or not rows else 0


sys.exit(main())
