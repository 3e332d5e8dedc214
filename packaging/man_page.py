"""The manual page of a program, from its --help and that of its commands; printed as roff.

  man_page.py PROGRAM VERSION

help2man would run the lines of exit codes and examples into paragraphs: here options and commands become lists, and all
other text keeps its lines.
"""

import pathlib
import re
import subprocess
import sys

COLUMN = 30


def help_text(*command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def entries(lines):
    """Lists of CLI11: a term, then, from column 30 or on the next line, what it means."""
    for line in lines:
        if line.startswith(" " * COLUMN):
            yield escaped(line.strip())
            continue
        yield ".TP\n.B " + escaped(line[:COLUMN].strip() if line[COLUMN - 1 : COLUMN] == " " else line.strip())
        if line[COLUMN - 1 : COLUMN] == " ":
            yield escaped(line[COLUMN:].strip())


def body(text, heading):
    """The paragraphs of a help text after its first, which says what it is for, and the usage."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        title = re.match(r"(Options|Positionals|Subcommands):$", lines[0])
        if title:
            yield heading + (" COMMANDS" if title[1] == "Subcommands" else " " + title[1].upper())
            yield from entries(lines[1:])
            continue
        if re.match(r"[A-Z][\w ]*:$", lines[0]):
            yield heading + " " + lines.pop(0)[:-1].upper()
        elif lines[0].startswith("Usage:"):
            continue
        else:
            yield ".PP"
        yield ".nf"
        yield from map(escaped, lines)
        yield ".fi"


def main():
    program, version = sys.argv[1:]
    name = pathlib.Path(program).name
    text = help_text(program)
    purpose, text = text.split("\n", 1)
    usage = re.search(r"^Usage: \S+ (.*)$", text, re.M)[1]
    page = [
        f'.TH {escaped(name.upper())} 1 "" "assay {version}" "User Commands"',
        ".SH NAME",
        escaped(name) + " \\- " + escaped(purpose[0].lower() + purpose[1:].rstrip(".")),
        ".SH SYNOPSIS",
        f".B {escaped(name)}",
        escaped(usage),
        *body(text, ".SH"),
    ]
    commands = re.search(r"^Subcommands:\n((?:  .*\n)*)", text, re.M)
    for command in re.findall(r"^  (\S+)", commands[1], re.M) if commands else ():
        text = help_text(program, command)
        page += [f".SH COMMAND {escaped(command.upper())}", escaped(text.splitlines()[0])]
        page += [".PP", ".B " + escaped(re.search(r"^Usage: (.*)$", text, re.M)[1])]
        page += body(text.split("\n", 1)[1], ".SS")
    print("\n".join(page))


main()
