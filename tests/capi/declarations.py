"""What the C headers say of each function, as C++ for tests/capi/every_function_test.cpp.

  declarations.py HEADER... >every_function.inc

One line for each function: its name, its parameters and what is said of NULL for each, its rule for threads, and the errors that it
names, or that a function names to which it refers ("as assay_trainer_step").
"""

import re
import sys


def parameters(declaration):
    inside = declaration[declaration.index("(") + 1 : declaration.rindex(")")]
    inside = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", inside)  # functions as parameters
    return [] if inside == "void" else [re.search(r"(\w+)$", part.strip())[1] for part in inside.split(",")]


def null(comment, parameter):
    """"may": the comment says that the parameter may be NULL; "said": it speaks of NULL; "": it does not."""
    paragraph = re.search(rf"^ \*   (?:\w+, )*{parameter}(?:, \w+)*  (.*(?:\n \*     .*)*)", comment, re.M)
    said = paragraph[1] if paragraph else ""
    if "may be NULL" in said or "Both may be NULL" in comment:
        return "may"
    return "said" if "NULL" in said else ""


def read(paths):
    """(name, declaration, comment) of each function."""
    for path in paths:
        with open(path) as file:
            text = file.read()
        comment = ""
        for part in re.finditer(r"/\*(.*?)\*/|^ASSAY_API ([^;]*);", text, re.S | re.M):
            if part[2]:
                yield re.search(r"(assay_\w+)\(", part[2])[1], part[2], comment
            elif "\n" in part[1] or "since" in part[1]:
                comment = part[1]


def errors(comments, name, seen=()):
    named = set(re.findall(r"ASSAY_E_\w+", comments[name]))
    for other in re.findall(r"\bas\s+(?:\*\s+)?(?:of\s+)?(assay_\w+)", comments[name]):
        if other in comments and other not in seen:
            named |= errors(comments, other, (*seen, name))
    return named


def main():
    functions = list(read(sys.argv[1:]))
    comments = {name: comment for name, _, comment in functions}
    for name, declaration, comment in functions:
        threads = re.search(r"threads\s+(.*?)\s{2,}since", comment)
        rows = ", ".join(f'{{"{one}", "{null(comment, one)}"}}' for one in parameters(declaration))
        codes = "".join(f"{code} " for code in sorted(errors(comments, name)))
        print(f'check({{"{name}", {{{rows}}}, "{threads[1] if threads else ""}", "{codes}"}}, {name});')


main()
