"""The pytest plugin and the command line."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def python(*arguments, folder):
    path = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    environment = dict(os.environ, PYTHONPATH=path)
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=300, check=False)


def test_decorated_functions_are_tests_of_their_own(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "import shardproof\n"
        "from subjects import softmax_attention\n\n\n"
        "@shardproof.attention\n"
        "def good(q, k, v, *, mask, scale):\n"
        "    return softmax_attention(q, k, v, mask, scale)\n\n\n"
        "@shardproof.attention\n"
        "def bad(q, k, v, *, mask, scale):\n"
        "    return softmax_attention(q, k, v, mask, 2 * scale)\n\n\n"
        "def test_by_hand(shardproof_time):\n"
        "    assert shardproof.fuzz(good, time=shardproof_time, quiet=True).ok\n", encoding="utf-8")
    ran = python("-m", "pytest", "-q", "-p", "shardproof.pytest_plugin", "--shardproof-time=2s",
                 folder=tmp_path)
    assert "1 failed, 2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "bad: matches_reference is falsified" in ran.stdout
    assert "case:   attention " in ran.stdout
    assert "golden: shardproof_goldens/bad-" in ran.stdout


def test_a_script_is_fuzzed_from_the_command_line(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import shardproof\n"
        "from subjects import softmax_attention\n\n\n"
        "@shardproof.attention\n"
        "def good(q, k, v, *, mask, scale):\n"
        "    return softmax_attention(q, k, v, mask, scale)\n\n\n"
        "shardproof.fuzz(good)  # is not begun by processes that need the subject alone\n",
        encoding="utf-8")
    ran = python("-m", "shardproof", "fuzz", script, "--cases=50", "--subject=good",
                 folder=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "HOLDS" in ran.stdout
    wrong = python("-m", "shardproof", "fuzz", f"{script}:better", folder=tmp_path)
    assert wrong.returncode == 2
    assert "has no subject better; it has: good" in wrong.stderr
