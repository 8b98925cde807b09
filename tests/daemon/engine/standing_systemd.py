"""A stand-in for systemd's programs, in the shapes of systemd 252: `systemctl`, `busctl` and `journalctl`.

They read real unit and drop-in files below a root and run real processes; a keeper process for each start is what
PID 1 would be. Only what the hand uses is there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

PROGRAM = r'''
import ctypes, fcntl, json, os, pathlib, re, signal, subprocess, sys, time, uuid
root = pathlib.Path(os.environ["STANDING_SYSTEMD_ROOT"])
program, words = os.path.basename(sys.argv[0]), sys.argv[1:]
options = [word for word in words if word.startswith("--")]
plain = [word for word in words if not word.startswith("--")]
state_file, loaded_file = root / "state.json", root / "loaded.json"
with open(root / "calls", "a") as calls:
    calls.write(" ".join([program, *words]) + "\n")

def split(text):
    """Words of an ExecStart= or Environment= line, as systemd takes them apart."""
    found, word, quote, i = [], None, None, 0
    while i < len(text):
        letter = text[i]
        if letter == "\\":
            if text[i + 1] == "x":
                letter, i = chr(int(text[i + 2:i + 4], 16)), i + 3
            else:
                letter, i = text[i + 1], i + 1
            word = (word or "") + letter
        elif quote:
            if letter == quote:
                quote = None
            else:
                word += letter
        elif letter in "\"'":
            quote, word = letter, word or ""
        elif letter in " \t":
            if word is not None:
                found.append(word)
            word = None
        else:
            word = (word or "") + letter
        i += 1
    return [one.replace("%%", "%") for one in (found if word is None else [*found, word])]

def load():
    unit = os.environ["STANDING_SYSTEMD_UNIT"]
    drop_ins = {}
    for place in ("run", "etc"):  # /etc wins over /run where the names are the same
        for file in (root / place / "systemd/system" / f"{unit}.d").glob("*.conf"):
            drop_ins[file.name] = file
    found = {"argv": None, "environ": {}, "restart": "no"}
    for file in [root / "etc/systemd/system" / unit, *(drop_ins[name] for name in sorted(drop_ins))]:
        for line in file.read_text().splitlines():
            key, _, value = line.partition("=")
            if key == "ExecStart":
                found["argv"] = split(value) or None
            elif key == "Environment":
                found["environ"].update(one.split("=", 1) for one in split(value))
            elif key == "Restart":
                found["restart"] = value
    loaded_file.write_text(json.dumps(found))

def expanded(argv, environ):
    out = []
    for word in argv:
        if re.fullmatch(r"\$[A-Za-z_]\w*", word):
            out += environ.get(word[1:], "").split()
        else:
            out.append(re.sub(r"\$\$|\$\{(\w+)\}", lambda m: "$" if m[0] == "$$" else environ.get(m[1], ""), word))
    return out

class State:
    def __enter__(self):
        self.lock = open(root / "lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.now = json.loads(state_file.read_text())
        return self.now
    def __exit__(self, *_):
        state_file.write_text(json.dumps(self.now))
        self.lock.close()

def family(top):
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                parents[int(entry.name)] = int(fields[1])
    found, changed = {top}, True
    while changed:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        changed = bool(more)
    return found - {top}

def keep():
    """What PID 1 does for one start: runs the command, adopts and counts its processes, notes its end."""
    os.setsid()
    ctypes.CDLL(None).prctl(36, 1)
    unit = json.loads(loaded_file.read_text())
    invocation = uuid.uuid4().hex
    environ = {**os.environ, **unit["environ"]}
    group = root / "sys/fs/cgroup/system.slice" / os.environ["STANDING_SYSTEMD_UNIT"]
    group.mkdir(parents=True, exist_ok=True)
    with open(root / f"journal-{invocation}", "ab") as journal:
        child = subprocess.Popen(expanded(unit["argv"], environ), env=environ, stdin=subprocess.DEVNULL,
                                 stdout=journal, stderr=journal)
    with State() as state:
        state.update(ActiveState="active", SubState="running", MainPID=child.pid, ExecMainPID=child.pid,
                     ExecMainCode=0, ExecMainStatus=0, InvocationID=invocation)
    stopped = False
    while True:
        members = family(os.getpid())
        (group / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in members))
        with State() as state:
            code = child.poll()
            if code is not None:
                state.update(MainPID=0, ExecMainCode=1 if code >= 0 else 2, ExecMainStatus=abs(code))
            order, state["order"] = state.get("order"), None
            if order:
                stopped = True
                state.update(ActiveState="deactivating", SubState="stop-sigterm")
            for pid in members if order else ():
                try:
                    os.kill(pid, getattr(signal, order))
                except ProcessLookupError:
                    pass
            if code is not None and not stopped:
                state.update(ActiveState="deactivating", SubState="stop-sigterm")
            if code is not None and not members:
                failed = code != 0 and not (stopped and code == -15)
                state.update(ActiveState="failed" if failed else "inactive", SubState="failed" if failed else "dead")
                break
        time.sleep(0.02)
    (group / "cgroup.procs").unlink()
    if unit["restart"] == "always" and not stopped:
        with State() as state:
            state.update(ActiveState="activating", SubState="auto-restart")
        os.execv(sys.executable, [sys.executable, "-IS", sys.argv[0], "keep"])

if program == "busctl":
    argv = json.loads(loaded_file.read_text())["argv"]
    path = argv[0]
    print(json.dumps({"type": "a(sasbttttuii)", "data": [[path, argv, False, 0, 0, 0, 0, 0, 0, 0]]}))
elif program == "journalctl":
    run = next(word for word in words if word.startswith("_SYSTEMD_INVOCATION_ID=")).partition("=")[2]
    after = [word.partition("=")[2] for word in options if word.startswith("--after-cursor=")]
    begin = int(after[0].rpartition("i=")[2]) if after else 0
    file = root / f"journal-{run}"
    data = file.read_bytes() if file.exists() else b""
    part = data[begin:data.rfind(b"\n") + 1]
    sys.stdout.write(part.decode())
    if part:
        print(f"-- cursor: s=5f3;b=77;i={begin + len(part)}")
    else:
        sys.exit(1)  # as the real one does, without a word
elif plain[0] == "keep":
    keep()
elif plain[0] == "daemon-reload":
    load()
elif plain[0] == "show":
    with State() as state:
        shown = {"LoadState": "loaded", "ControlGroup": "/system.slice/" + plain[1], **state}
        shown["FragmentPath"] = "/etc/systemd/system/" + plain[1]
        files = [file for place in ("etc", "run") for file in (root / place).rglob(plain[1] + ".d/*.conf")]
        shown["DropInPaths"] = " ".join("/" + str(file.relative_to(root)) for file in sorted(files))
    asked = next(word for word in options if word.startswith("--property=")).partition("=")[2].split(",")
    for key in sorted(set(asked) & set(shown)):
        print(f"{key}={shown[key]}")
elif plain[0] in ("stop", "kill"):
    with State() as state:
        if state["ActiveState"] in ("active", "activating", "deactivating"):
            state["order"] = "SIGTERM" if plain[0] == "stop" else "SIGKILL"
elif plain[0] == "start":
    with State() as state:
        free = state["ActiveState"] in ("inactive", "failed")
        if free:
            state.update(ActiveState="activating", SubState="start")
    if free and os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        keep()
'''

START = {
    "ActiveState": "inactive",
    "SubState": "dead",
    "MainPID": 0,
    "ExecMainPID": 0,
    "ExecMainCode": 0,
    "ExecMainStatus": 0,
    "InvocationID": "",
}


class StandingSystemd:
    """The programs in `bin` below `folder`, for one unit whose own command is the text `exec_start`."""

    def __init__(self, folder: Path, unit: str, exec_start: str) -> None:
        self.root = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.unit = unit
        for name in ("systemctl", "busctl", "journalctl"):
            program = self.bin / name
            program.write_text(f"#!{sys.executable} -IS\n{PROGRAM}")
            program.chmod(0o755)
        units = folder / "etc/systemd/system"
        units.mkdir(parents=True)
        (units / unit).write_text(f"[Service]\nExecStart={exec_start}\nRestart=always\nRestartSec=0\n")
        (folder / "state.json").write_text(json.dumps(START))

    def environ(self, base: dict[str, str]) -> dict[str, str]:
        """The environment in which the programs are found and know where they are."""
        return {
            **base,
            "PATH": f"{self.bin}{os.pathsep}{base['PATH']}",
            "STANDING_SYSTEMD_ROOT": str(self.root),
            "STANDING_SYSTEMD_UNIT": self.unit,
        }

    def calls(self) -> list[str]:
        """What was called."""
        return (self.root / "calls").read_text().splitlines()
