"""Whether what was stored of a failure fails again: the goldens in a folder, and shrunk cases."""

import subprocess
from pathlib import Path


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def complaints_about(program, record):
    """What is wrong with the golden and the case of a mutant that was killed."""
    name, golden = record["mutant"], record["golden"]
    if not Path(golden).is_file():
        return [f"{name}: no golden was stored"]
    found = []
    shown = run(program, "show", golden)
    if shown.returncode != 0 or name not in shown.stdout:
        found.append(f"{name}: show: {shown.stdout}{shown.stderr}")
    checked = run(program, "check", record["shrunk"])
    if checked.returncode != 1:
        found.append(f"{name}: check '{record['shrunk']}' ends with {checked.returncode}")
    return found


def replay(program, goldens, records, mutants):
    """Prints what does not fail again, and the counts; the exit code."""
    killed = [record for record in records if record["killed"]]
    complaints = [text for record in killed for text in complaints_about(program, record)]
    files = sorted(Path(goldens).glob("**/*.h5"))
    replayed = run(program, "replay", goldens)
    failing = [line for line in replayed.stdout.splitlines() if " still fails " in line]
    for line in replayed.stdout.splitlines():
        if line.endswith(".h5") and line not in failing:
            complaints.append(line)
    if len(failing) != len(files) or replayed.returncode != 1:
        complaints.append(f"{len(files) - len(failing)} goldens do not fail as they did")
    for text in complaints:
        print(text)
    print(f"{len(killed)} of {mutants} mutants killed, {len(failing)} of {len(files)} goldens "
          f"still fail, {len(complaints)} complaints")
    return 1 if complaints or not killed or len(killed) != mutants else 0
