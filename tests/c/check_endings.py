"""Which functions of the library may end the process of its host, and that no others do.

  check_endings.py ALLOWED OBJECTS [LIBRARY]

OBJECTS is a file that names object files, one a line. Each call of theirs to a function that ends the process or jumps
out of it must be listed in ALLOWED: the called function, a pattern that occurs in the demangled name of the caller, and the
reason, with tabs in between. With LIBRARY, what it imports must be what the objects call. Only calls in the text are
looked at: tables of abstract classes name __cxa_pure_virtual, which nobody calls.

Not seen: an exception that leaves a function which must not throw, and what libraries do that this one calls. The
tests of faults look for these.
"""

import pathlib
import re
import subprocess
import sys

ENDINGS = {
    "abort", "exit", "_exit", "_Exit", "quick_exit", "pthread_exit", "raise", "kill", "tgkill", "pthread_kill",
    "longjmp", "siglongjmp", "_longjmp", "__longjmp_chk", "__assert_fail", "__assert_perror_fail", "__stack_chk_fail",
    "__chk_fail", "__fortify_fail", "__cxa_pure_virtual", "__cxa_deleted_virtual", "__cxa_bad_cast",
    "std::terminate", "std::unexpected", "std::abort", "std::__glibcxx_assert_fail", "__clang_call_terminate",
    "google::protobuf::internal::LogMessage::LogMessage",  # FATAL throws or aborts, as protobuf was built
}  # fmt: skip


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def plain(symbol):
    """A demangled name without version, parameters and addend: LogMessage(int)@V-0x4 is LogMessage."""
    return re.sub(r"(\(.*|@.*|[-+]0x[0-9a-f]+)$", "", symbol.strip())


def imported(path, *options):
    lines = run("nm", "-C", "-u", *options, path).splitlines()
    return {plain(line.split(maxsplit=1)[1]) for line in lines if line.split()} & ENDINGS


def calls(path):
    """(called, caller) for each call of the object to one of ENDINGS."""
    caller = ""
    for line in run("objdump", "-d", "-r", "-C", "--no-show-raw-insn", path).splitlines():
        head = re.match(r"[0-9a-f]{8,} <(.*)>:$", line)
        relocation = re.search(r"\sR_\w+\s+(.*)$", line)
        if head:
            caller = head[1]
        elif relocation and plain(relocation[1]) in ENDINGS:
            yield plain(relocation[1]), caller


def main():
    allowed = []
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        if line and not line.startswith("#"):
            called, pattern, reason = line.split("\t")
            assert called in ENDINGS and reason, line
            allowed.append((called, pattern))
    objects = [line for line in pathlib.Path(sys.argv[2]).read_text().split() if line.endswith(".o")]  # no precompiled headers
    assert objects, "no objects"
    wrong, seen = [], set()
    for path in objects:
        if not imported(path):
            continue
        for called, caller in sorted(set(calls(path))):
            seen.add(called)
            if not any(called == one and re.search(pattern, caller) for one, pattern in allowed):
                wrong.append(f"{caller} calls {called} ({path})")
    for called in sorted(imported(sys.argv[3], "-D") - seen - {"__cxa_pure_virtual"} if len(sys.argv) > 3 else ()):
        wrong.append(f"{sys.argv[3]} imports {called}, which none of its objects calls")
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        sys.exit(f"A library must not end its host. Find another way, or give the reason in {sys.argv[1]}.")


main()
