"""Proof that ci/tidy sees: a tree that breaks no rule, then one violation planted at a time."""

import shutil
import tempfile
from pathlib import Path

import rules

HEADER = "// Thing: what it is.\n#pragma once\n"
FUNCTION = "int f(int a = 0) {{\n{}  return a;\n}}\n"
CLEAN = {
    ".clang-format": (Path(__file__).parents[2] / ".clang-format").read_text(encoding="utf-8"),
    "harness/model/a.h": HEADER,
    "harness/model/a.cpp": '#include "harness/model/a.h"\n\n' + FUNCTION.format("  ++a;\n" * 57),
    "harness/model/a_test.cpp": '#include <gtest/gtest.h>\n\n#include "harness/model/f.h"\n',
    "harness/model/f.h": HEADER + '\n#include "reference/b.h"\n',
    "harness/model/require.cpp": "namespace {\nint failures = 0;\n}\n",
    "harness/worlds/sim.cpp": "#ifdef __SANITIZE_ADDRESS__\n#endif\n",
    "harness/worlds/worlds.def": "WORLD(sim)\n",
    "harness/check/generate.cpp": "#include <rapidcheck/Gen.h>\n",
    "harness/main.cpp": '#include <CLI/CLI.hpp>\n#include <iostream>\n\n#include "golden/g.h"\n',
    "golden/g.h": HEADER + "\n#include <hdf5.h>\n",
    "properties/holds.cpp": '#include "harness/check/property.h"\n',
    "properties/properties.def": "PROPERTY(holds)\n",
    "parallel_impls/ring.cpp": "const int kTable[] = {1, 2};\nauto& f() {\n"
                               "  static const int rows = 3;\n  return rows;\n}\n"
                               "class A {\n private:\n  static int f() { return 1; }\n};\n",
    "parallel_impls/subjects.def": "SUBJECT(ring)\n",
    "parallel_impls/mutants/worse.mutant": "of: ring\nkind: K01\nkiller: holds\nsays: x\n\n- a\n",
}
INCLUDE = '#include "{}"\n'
LONG = FUNCTION.format("  ++a;\n" * 59)
TABLE = "const int kTable[] = {\n    1,\n};\n\n"
# The rule that must speak, the file, its text.
PLANTED = [
    ("rule_includes", "reference/x.cpp", INCLUDE.format("harness/run/tensor.h")),
    ("rule_includes", "reference/x.cpp", INCLUDE.format("parallel_impls/ring.h")),
    ("rule_includes", "parallel_impls/x.cpp", INCLUDE.format("reference/operators.h")),
    ("rule_includes", "parallel_impls/x.cpp", INCLUDE.format("harness/check/property.h")),
    ("rule_includes", "parallel_impls/x.cpp", INCLUDE.format("properties/properties.h")),
    ("rule_includes", "parallel_impls/x.cpp", INCLUDE.format("harness/worlds/worlds.h")),
    ("rule_includes", "properties/x.cpp", INCLUDE.format("parallel_impls/subjects.h")),
    ("rule_includes", "properties/x.cpp", INCLUDE.format("harness/worlds/worlds.h")),
    ("rule_includes", "properties/x.cpp", INCLUDE.format("harness/devices/devices.h")),
    ("rule_includes", "properties/x.cpp", INCLUDE.format("golden/golden.h")),
    ("rule_includes", "harness/model/x.cpp", INCLUDE.format("harness/run/tensor.h")),
    ("rule_includes", "harness/run/x.cpp", INCLUDE.format("harness/check/property.h")),
    ("rule_includes", "harness/worlds/x.cpp", INCLUDE.format("harness/devices/devices.h")),
    ("rule_includes", "harness/check/x.cpp", INCLUDE.format("properties/properties.h")),
    ("rule_includes", "harness/check/x.cpp", "#include <hdf5.h>\n"),
    ("rule_includes", "harness/check/x_test.cpp", "#include <hdf5.h>\n"),
    ("rule_includes", "harness/check/x.cpp", "#include <rapidcheck.h>\n"),
    ("rule_includes", "properties/x.cpp", "#include <rapidcheck/Gen.h>\n"),
    ("rule_includes", "harness/check/x.cpp", "#include <CLI/CLI.hpp>\n"),
    ("rule_includes", "reference/x.cpp", "#include <gtest/gtest.h>\n"),
    ("rule_sizes", "harness/run/x.cpp", "int f();\n" * 301),
    ("rule_sizes", "harness/run/x.def", "// " + "x" * 98 + "\n"),
    ("rule_functions", "harness/run/x.cpp", LONG),
    ("rule_functions", "harness/run/x.cpp", "namespace a {\n" + TABLE + LONG + "}\n"),
    ("rule_functions", "harness/run/x.cpp",
     "struct A {\n  A() : b{1} {\n" + "    ++b;\n" * 60 + "  }\n  int b;\n};\n"),
    ("rule_state", "harness/run/x.cpp", "namespace {\nint failures = 0;\n}\n"),
    ("rule_state", "harness/run/x.cpp", "std::vector<int> failures;\n"),
    ("rule_state", "harness/run/x.cpp", "int f() {\n  static int calls;\n  return ++calls;\n}\n"),
    ("rule_preprocessor", "harness/run/x.cpp", "#ifdef FAST\n#endif\n"),
    ("rule_preprocessor", "properties/x.cpp", "#if 0\n#endif\n"),
    ("rule_headers", "harness/run/x.h", "#pragma once\n"),
    ("rule_headers", "harness/run/x.h", "// Thing: what it is.\n\nint f();\n"),
    ("rule_words", "harness/run/x.cpp", "int f() { return rand(); }\n"),
    ("rule_words", "harness/run/x.cpp", "auto f() { return std::time(nullptr); }\n"),
    ("rule_words", "harness/run/x.cpp", "std::random_device f();\n"),
    ("rule_words", "harness/check/x.cpp", "#include <random>\n"),
    ("rule_words", "properties/x.cpp", 'void f() { std::cout << "x"; }\n'),
    ("rule_words", "harness/run/x.cpp", "int f(int row_idx);\n"),
    ("rule_words", "harness/run/x.cpp", "using namespace std;\n"),
    ("rule_words", "harness/run/x.cpp", "// TO" "DO: later\n"),
    ("rule_words", "README.md", "see /wo" "rk/main\n"),
    ("rule_words", "CMakeLists.txt", "add_compile_options(-ffast" "-math)\n"),
    ("rule_tables", "properties/properties.def", "PROPERTY(holds)\nPROPERTY(absent)\n"),
    ("rule_tables", "harness/worlds/worlds.def", "WORLD(sim)\nWORLD(sim)\n"),
    ("rule_mutants", "properties/properties.def", "PROPERTY(holds)\nPROPERTY(unkilled)\n"),
    ("rule_mutants", "parallel_impls/mutants/x.mutant", "of: ring\nkiller: nobody\n"),
    ("rule_mutants", "parallel_impls/mutants/x.mutant", "of: square\nkiller: holds\n"),
    ("rule_format", "harness/run/x.cpp", "int   f( );\n"),
]


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def run():
    """Prints what went unseen or was wrongly seen; 0 when nothing did."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root, CLEAN)
        wrong += [f"a false alarm: {found}" for found in rules.violations(root)]
        for rule, path, text in PLANTED:
            shutil.rmtree(root)
            write(root, CLEAN | {path: text})
            named = "properties/unkilled.cpp" if "unkilled" in text else path
            found = rules.violations(root, [getattr(rules, rule)])
            if named not in [where for where, *_ in found]:
                wrong.append(f"{rule} did not see {text!r} in {path}")
    for line in wrong:
        print(line)
    print(f"tidy self-test: {len(PLANTED)} planted violations, {len(wrong)} wrong answers")
    return 1 if wrong else 0
