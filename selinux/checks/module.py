"""Renders the module's text from its templates, and parses it."""

import hashlib
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent.parent


def rendered():
    """The module with every part that a config can select."""
    parts = ["etcd_lun.cil.in", "other_ports.cil", "portal_dns.cil", "credentials.cil", "etcd_unit.cil.in", "static_pod.cil.in"]
    text = "\n".join((HERE / part).read_text() for part in parts)
    for word, value in [
        ("@DATA_DIR@", "/var/lib/etcd"),
        ("@TEXTFILE_DIR@", "/var/node_exporter/textfile"),
        ("@ETCD_UNIT@", r"etcd\.service"),
    ]:
        text = text.replace(word, value)
    return text.replace("@CHECKSUM@", hashlib.sha256(text.encode()).hexdigest()[:16])


def forms(text):
    """The S-expressions of CIL, as nested lists of words."""
    stack = [[]]
    for word in re.findall(r';[^\n]*|"[^"]*"|[()]|[^\s()";]+', text):
        if word.startswith(";"):
            continue
        if word == "(":
            stack.append([])
        elif word == ")":
            stack[-2].append(stack.pop())
        else:
            stack[-1].append(word)
    if len(stack) != 1:
        raise ValueError("the parentheses of the module do not match")
    return stack[0]


def own(text):
    """The types and attributes that the module declares."""
    return {form[1] for form in forms(text) if form[0] in ("type", "typeattribute")}


def labels(text):
    """The file contexts: the regular expression of the path, and the type."""
    return re.findall(r'^\(filecon "([^"]+)" \w+ \(system_u object_r (\w+)', text, re.M)


def label(text, path):
    """The type that the module gives to a path. An expression without wildcards has precedence, then a longer one."""
    found = [(not re.search(r"[*?+(|\[]", one), len(one), type_) for one, type_ in labels(text) if re.fullmatch(one, path)]
    return max(found)[2] if found else None


def shared(text, contexts):
    """Expressions of the module's rules for files that the system's policy has too. With two labels for one expression libsepol
    3.8 does not link, and says so; 3.4 takes one of them."""
    lines = [line.split() for line in contexts.splitlines() if line.strip()]
    system = {words[0] for words in lines if not own(text) & set(words[-1].split(":"))}
    return {path for path, _ in labels(text)} & system


def sections(text):
    """The names of the module's sections. Each section begins with a line `;; name`."""
    return re.findall(r"^;; ([a-z0-9-]+)$", text, re.M)
