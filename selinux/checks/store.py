"""A copy of a policy store. semodule links modules into it, as on a node. Nothing else changes."""

import pathlib
import re
import shutil
import subprocess
import tempfile


class LinkError(Exception):
    """semodule failed; the text is its output."""


class Store:
    """The copy. `root` is the root directory of a system: `/`, an unpacked image, or a container's filesystem."""

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
        # On an ostree system the modules are below /etc (`store-root` in semanage.conf).
        in_var = (root / var / "active").is_dir()
        if not in_var and not (root / etc / "active").is_dir():
            raise LinkError(f"neither {root / var} nor {root / etc} has policy modules: is the policy's package complete there?")
        if in_var:
            shutil.copytree(root / var, self.root / var, symlinks=True)
        # Without the handlers that the store's own file may name, and without the check of neverallow. RHEL switches that
        # check off too, because its own policy fails it.
        text = "module-store = direct\nexpand-check = 0\nusepasswd = false\n"
        (self.root / "etc/selinux/semanage.conf").write_text(
            text + ("" if in_var else f"store-root = {self.root / 'etc/selinux'}\n")
        )

    def link(self, *arguments):
        """Rebuilds the policy with these arguments to semodule. Returns the path of the binary policy, and the output."""
        command = ["semodule", "-p", str(self.root), "-s", self.type, "-n", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise LinkError("; ".join(done.stdout.strip().splitlines()[-6:]))
        return self.newest(), done.stdout

    def newest(self):
        """The path of the newest binary policy."""
        policies = (self.root / f"etc/selinux/{self.type}/policy").glob("policy.*")
        return max(policies, key=lambda path: (path.stat().st_mtime_ns, path.suffix))

    def modules(self):
        """The names of the modules that are installed."""
        command = ["semodule", "-p", str(self.root), "-s", self.type, "-l"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return {line.split()[0] for line in done.stdout.splitlines() if line.strip()}

    def dropped(self):
        """Our optional blocks that the last link dropped. Only a rebuild with -v reports them."""
        command = ["semodule", "-v", "-v", "-v", "-p", str(self.root), "-s", self.type, "-n", "-B"]
        # The exit code is ignored: libsepol 3.4 with this much -v reports harmless duplicates as errors.
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return sorted(set(re.findall(r"^Disabling optional '(etcd_lun\w*)'", done.stdout, re.M)))

    def file_contexts(self):
        """The file contexts, as text."""
        return (self.root / f"etc/selinux/{self.type}/contexts/files/file_contexts").read_text()
