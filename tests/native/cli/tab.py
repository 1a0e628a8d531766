"""Types a line and a Tab into an interactive shell, and waits for what the shell offers.

Usage: tab.py SHELL DIR LINE WORD...

DIR has the completions. Exits with 0 when all WORDs stand on the screen, and with 1 and the screen after 60 seconds.
"""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

LIMIT = 60

shell, directory, line, *wanted = sys.argv[1:]
command = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}[shell]
# The prompt is written in two parts, because the terminal echoes this line too.
setup = {
    "bash": f"""for s in 'show-all-if-ambiguous on' 'bell-style none' 'page-completions off' 'completion-query-items 0' \
'enable-bracketed-paste off'; do bind "set $s"; done; source '{directory}/etcd-lun'; PS1='REA''DY> '""",
    "zsh": f"fpath=('{directory}' $fpath); autoload -Uz compinit; compinit -u -D; LISTMAX=0; PS1='REA''DY> '",
    "fish": f"source '{directory}/etcd-lun.fish'; function fish_prompt; echo -n 'REA''DY> '; end",
}[shell]
# fish colours what is typed, and moves the cursor between the letters of a word.
CONTROL = re.compile(r"\x1b(\[[0-9;?>=]*[a-zA-Z]|\][^\x07]*\x07|[()].|[=>])|[\x0f\x0e]")

child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "vt100"
    os.execvp(command[0], command)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 100, 200, 0, 0))
screen = ""
until = time.monotonic() + LIMIT


def wait(words):
    """Reads until all words are on the screen."""
    global screen
    while not all(word in CONTROL.sub("", screen) for word in words):
        if time.monotonic() > until or not select.select([terminal], [], [], LIMIT)[0]:
            print(screen)
            sys.exit(1)
        try:
            screen += os.read(terminal, 4096).decode(errors="replace")
        except OSError:
            print(screen)
            sys.exit(1)


os.write(terminal, setup.encode() + b"\n")
wait(["READY> "])
screen = ""
os.write(terminal, line.encode() + b"\t")
wait(wanted)
os.kill(child, 9)
