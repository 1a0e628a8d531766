"""A copy of a policy store: modules are linked into it by semodule, as on a node, and nothing else is touched."""

import pathlib
import re
import shutil
import subprocess
import tempfile


class LinkError(Exception):
    """semodule refused; the text is what it said."""


class Store:
    """The copy. `root` is the root directory of a system: `/`, an unpacked image, a container's file system."""

    def __init__(self, root):
        root = pathlib.Path(root)
        config = root / "etc/selinux/config"
        found = re.search(r"^SELINUXTYPE=(\S+)", config.read_text(), re.M) if config.is_file() else None
        if not found:
            raise LinkError(f"{config} names no policy: is {root} the root directory of a system with SELinux?")
        self.type = found[1]
        self._kept = tempfile.TemporaryDirectory(prefix="etcd-lun-policy-")
        self.root = pathlib.Path(self._kept.name)
        etc, var = f"etc/selinux/{self.type}", f"var/lib/selinux/{self.type}"
        shutil.copytree(root / etc, self.root / etc, symlinks=True)
        # On an ostree system the modules are below /etc (`store-root` in its semanage.conf).
        in_var = (root / var / "active").is_dir()
        if not in_var and not (root / etc / "active").is_dir():
            raise LinkError(f"there are no modules in {root / var} nor in {root / etc}")
        if in_var:
            shutil.copytree(root / var, self.root / var, symlinks=True)
        # No handlers that the store's own file may name, and no check of neverallow: RHEL ships with it switched off,
        # for its own policy doesn't pass.
        text = "module-store = direct\nexpand-check = 0\nusepasswd = false\n"
        (self.root / "etc/selinux/semanage.conf").write_text(
            text + ("" if in_var else f"store-root = {self.root / 'etc/selinux'}\n")
        )

    def link(self, *arguments):
        """Rebuilds the policy with these arguments to semodule. Returns where the binary policy is, and what was said."""
        command = ["semodule", "-p", str(self.root), "-s", self.type, "-n", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise LinkError("; ".join(done.stdout.strip().splitlines()[-6:]))
        return self.newest(), done.stdout

    def newest(self):
        """The binary policy."""
        policies = (self.root / f"etc/selinux/{self.type}/policy").glob("policy.*")
        return max(policies, key=lambda path: (path.stat().st_mtime_ns, path.suffix))

    def modules(self):
        """The names of the modules that are installed."""
        command = ["semodule", "-p", str(self.root), "-s", self.type, "-l"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return {line.split()[0] for line in done.stdout.splitlines() if line.strip()}

    def dropped(self):
        """The optional blocks of ours that were dropped in the last link: only a loud rebuild tells."""
        command = ["semodule", "-v", "-v", "-v", "-p", str(self.root), "-s", self.type, "-n", "-B"]
        # Its exit code doesn't count: libsepol 3.4, when it is this loud, calls harmless duplicates errors.
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return sorted(set(re.findall(r"^Disabling optional '(etcd_lun\w*)'", done.stdout, re.M)))

    def file_contexts(self):
        """What labels files get, as text."""
        return (self.root / f"etc/selinux/{self.type}/contexts/files/file_contexts").read_text()
