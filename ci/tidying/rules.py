"""The rules of ci/tidy. Each takes a Tree and yields (path, line, message) for every violation."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import structure

SKIPPED_FOLDERS = {".git", "build", "found", "data", "__pycache__", "shared"}
CODE_SUFFIXES = {".cpp", ".h", ".def"}

# Which folder may include which; a file's folder is the longest that it lies in.
FOLDERS = {
    "harness/model": {"harness/model"},
    "harness/masks": {"harness/masks", "harness/model"},
    "reference": {"reference", "harness/model"},
    "harness/run": {"harness/run", "harness/model"},
    "harness/worlds": {"harness/worlds", "harness/run", "harness/model"},
    "harness/devices": {"harness/devices", "harness/run", "harness/model"},
    "harness/plugin": {"harness/plugin", "parallel_impls", "harness/run", "harness/model"},
    "parallel_impls": {"parallel_impls", "harness/run", "harness/model"},
    "harness/check": {"harness/check", "harness/run", "harness/model"},
    "properties": {"properties", "harness/check", "harness/run", "harness/model"},
    "golden": {"golden", "harness/check", "harness/run", "harness/model"},
    "harness": None,  # main and its commands: everything
}
# Where a library's headers may be included. Tests may include any of them but hdf5.h.
LIBRARIES = {
    "hdf5": ("golden/",),
    "rapidcheck": ("harness/check/generate",),
    "boost/": ("harness/run/fiber",),
    "cblas": ("harness/devices/",),
    "dlpack/": ("harness/run/", "harness/plugin/shardproof_plugin.h"),
    "nlohmann/": ("harness/check/", "golden/"),
    "CLI/": (),
    "gtest/": (),
}
MAIN = r"^harness/([^/]*$|commands/|bench/)|/tool/"
PRINTING = MAIN + r"|sink|report|progress"
# Pattern, the files where it is right, what to say elsewhere. Tests may do all of these.
FORBIDDEN = [
    (r"(?<![.>\w])s?rand\(|(?<![.>\w])time\(|random_device|system_clock|<random>", r"^$",
     "values come from a case's seeds alone"),
    (r"<iostream>|std::cout|(?<!\w)printf\(|(?<!\w)puts\(|fmt::print\(\s*[\"f]", PRINTING,
     "only main, its commands and the sinks print"),
    (r"\busing namespace std\b", r"^$", "names are spelled out"),
    (r"\b(?:[a-z]\w*_)?(?:idx|cnt|tmp|buf|cfg|dst|src|msg|ctx)(?:_\w+)?\b", r"^$",
     "no abbreviations but q, k, v, lse and loop indices"),
]
# Written in pieces, so that this file passes its own rule.
WORDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|/(home|ro" r"ot|Users|wo" r"rk)/")
# On the platform, by conditional compilation.
MAY_DEPEND = ("harness/worlds/", "harness/devices/", "harness/run/fiber.cpp",
              "harness/plugin/shardproof_plugin.h")  # C and C++
MAY_HOLD_STATE = (r"^harness/(model/require|run/whereabouts|python/bridge/bridge)\.cpp$|/doubles/|"
                  + MAIN)


class Tree:
    """The files to check, by path relative to the root."""

    def __init__(self, root):
        self.root = root
        self.text = {}
        for folder, subfolders, names in os.walk(root):
            subfolders[:] = sorted(set(subfolders) - SKIPPED_FOLDERS)
            for path in (Path(folder, name) for name in sorted(names)):
                try:
                    self.text[str(path.relative_to(root))] = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue
        self.tests = self._find_tests()

    def code(self):
        return {p: t for p, t in self.text.items() if Path(p).suffix in CODE_SUFFIXES}

    def is_test(self, path):
        return path in self.tests

    def _find_tests(self):
        """Test files, and the headers that nothing else includes."""
        includers = {}
        for path, text in self.code().items():
            for included in re.findall(r'(?m)^#include "([^"]+)"', text):
                includers.setdefault(included, set()).add(path)
        tests = {p for p in self.code() if p.endswith(("_test.cpp", "_fuzzer.cpp"))}
        while more := {p for p, by in includers.items() if p not in tests and by <= tests}:
            tests |= more
        return tests


def lines(text):
    return enumerate(text.split("\n"), start=1)


def folder_of(path):
    return max((f for f in FOLDERS if path.startswith(f + "/")), key=len, default=None)


def rule_includes(tree):
    for path, text in tree.code().items():
        folder = folder_of(path)
        for number, line in lines(text):
            match = re.match(r'\s*#include [<"]([^>"]+)[>"]', line)
            if not match:
                continue
            included, target = match.group(1), folder_of(match.group(1))
            for library, places in LIBRARIES.items():
                free = folder == "harness" or (tree.is_test(path) and library != "hdf5")
                if included.startswith(library) and not free and not path.startswith(places):
                    yield path, number, f"{included} does not belong in {folder}"
            allowed = FOLDERS.get(folder)
            if target and allowed is not None and target not in allowed and not tree.is_test(path):
                yield path, number, f"{folder} must not include {target}"


def rule_sizes(tree):
    for path, text in tree.text.items():
        if Path(path).suffix in {".md", ".json"} or path.startswith("golden/cases/"):
            continue
        if text.count("\n") > 300 and path != "LICENSE":
            yield path, 301, f"{text.count(chr(10))} lines; a file has at most 300"
        for number, line in lines(text):
            if len(line) > 100:
                yield path, number, f"{len(line)} columns; a line has at most 100"


def rule_functions(tree):
    for path, text in tree.code().items():
        for part in structure.outline(text):
            count = part.last - part.first + 1
            if part.kind == "function" and count > 60:
                yield path, part.first, f"{count} lines; a function has at most 60"


def rule_state(tree):
    for path, text in tree.code().items():
        if tree.is_test(path) or re.search(MAY_HOLD_STATE, path):
            continue
        blanked = structure.blank(text).split("\n")
        for part in structure.outline(text):
            if part.kind == "function":
                for number in range(part.first + 1, part.last + 1):
                    if re.match(r"\s+(static|thread_local) (?!const)", blanked[number - 1]):
                        yield path, number, "no mutable state outlives a call"
            elif is_mutable_global(part):
                yield path, part.first, "no mutable globals"


def is_mutable_global(part):
    declared = part.head.split("=")[0]
    other = r"(using|typedef|class|struct|enum|union|template|friend|static_assert|extern|#|\[\[)"
    if part.in_type or not declared or re.match(other, declared) or "(" in declared:
        return False
    return not re.search(r"\bconst(expr|init)?\b", declared) and " " in declared


def rule_preprocessor(tree):
    for path, text in tree.code().items():
        if path.startswith(MAY_DEPEND) or path.endswith(".def"):
            continue
        for number, line in lines(text):
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line):
                yield path, number, "conditional compilation belongs in worlds, devices and .def"


def rule_headers(tree):
    for path, text in tree.code().items():
        opening = text.split("\n")
        comment = 0
        while comment < len(opening) and opening[comment].startswith("//"):
            comment += 1
        if path.endswith(".h") and (comment == 0 or opening[comment] != "#pragma once"):
            yield path, 1, "a header opens with what it is and its invariant, then #pragma once"


def rule_words(tree):
    for path, text in tree.code().items():
        plain = structure.without_comments(text)
        for pattern, places, message in FORBIDDEN:
            if tree.is_test(path) or re.search(places, path):
                continue
            source = plain if "<" in pattern else structure.blank(text)
            for number, line in lines(source):
                if re.search(pattern, line):
                    yield path, number, message
    for path, text in tree.text.items():
        for number, line in lines(text):
            if WORDS.search(line):
                yield path, number, f"a word that does not belong: {line.strip()[:60]}"
            if re.search(r"^[^#]*-ffast-math", line) and not path.endswith(".md"):
                yield path, number, "fast-math lets the compiler change results"


def table(tree, path, word):
    return re.findall(rf"(?m)^{word}\((\w+)\)", tree.text.get(path, ""))


def rule_tables(tree):
    """Each line of a table is a file of its name."""
    for path, word in (("properties/properties.def", "PROPERTY"),
                       ("harness/masks/masks.def", "MASK"),
                       ("reference/operators.def", "OPERATOR"),
                       ("parallel_impls/subjects.def", "SUBJECT"),
                       ("harness/worlds/worlds.def", "WORLD"),
                       ("harness/devices/devices.def", "DEVICE")):
        names = table(tree, path, word)
        for name in names:
            if f"{Path(path).parent}/{name}.cpp" not in tree.text:
                yield path, 1, f"{name} has no file {Path(path).parent}/{name}.cpp"
            if names.count(name) > 1:
                yield path, 1, f"{name} stands there twice"


def rule_mutants(tree):
    properties = table(tree, "properties/properties.def", "PROPERTY")
    subjects = table(tree, "parallel_impls/subjects.def", "SUBJECT")
    killers = set()
    for path, text in tree.text.items():
        if not path.endswith(".mutant"):
            continue
        header = dict(re.findall(r"(?m)^(\w+): *(.*)$", text))
        killers.add(header.get("killer"))
        if header.get("killer") not in properties:
            yield path, 1, f"its killer '{header.get('killer')}' is not a property"
        if header.get("of") not in subjects:
            yield path, 1, f"it is of '{header.get('of')}', which is not a subject"
    for name in properties:
        if name not in killers:
            yield f"properties/{name}.cpp", 1, "no mutant names this property as its killer"


def rule_format(tree):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        yield "ci/tidy", 1, "clang-format-14 is not installed; ci/setup test installs it"
        return
    paths = [p for p in tree.code() if not p.endswith(".def")]
    run = subprocess.run([tool, "--dry-run", "--Werror", *paths], cwd=tree.root,
                         capture_output=True, text=True, check=False)
    found = set(re.findall(r"(?m)^([^:\s]+):(\d+):\d+: error", run.stderr))
    for path, number in sorted(found):
        yield path, int(number), "not as clang-format 14 would have it"
    if run.returncode != 0 and not found:
        yield "ci/tidy", 1, f"clang-format failed: {run.stderr.strip()[:200]}"


RULES = [rule_includes, rule_sizes, rule_functions, rule_state, rule_preprocessor, rule_headers,
         rule_words, rule_tables, rule_mutants, rule_format]


def violations(root, rules=tuple(RULES)):
    """(path, line, message) of every violation of `rules` under `root`."""
    tree = Tree(Path(root))
    return [found for rule in rules for found in rule(tree)]
