//! A node: a machine that has booted, and an ssh connection to it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::bed::Bed;
use crate::host::{self, Output};
use crate::net::Machine;
use crate::ssh::Ssh;
use crate::vm::{Life, Options, Vm};

/// The time limit of a command in the node, unless the caller sets another.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Of an emulated node with two neighbours on two processors, whose first boot fetches the program and installs the policy.
const BOOT_LIMIT: Duration = Duration::from_secs(600);
const KVM_LIMIT: Duration = Duration::from_secs(60);
const BOOT_ATTEMPTS: usize = 4;

/// A node.
#[derive(Debug)]
pub struct Node {
    bed: Rc<Bed>,
    vm: Vm,
    ssh: Option<Ssh>,
    transcript: PathBuf,
}

enum Boot {
    Up(Ssh),
    Panicked(String),
    WordsShown,
    TimedOut,
}

impl Node {
    /// Boots a new node from the bed's image.
    pub fn boot(bed: &Rc<Bed>, options: Options) -> Result<Self> {
        let mut node = Self::off(bed, options.machine.name(), &bed.image.disk, options)?;
        node.power_on()?;
        Ok(node)
    }

    /// A node that is off, whose disk begins with the content of `base`. Only one node can be on at a time,
    /// because all nodes have the same addresses.
    pub fn off(bed: &Rc<Bed>, name: &str, base: &Path, options: Options) -> Result<Self> {
        Ok(Self::of(bed, Vm::new(bed, name, base, options)?))
    }

    /// A node that is off, on a raw disk that the caller owns.
    pub fn on(bed: &Rc<Bed>, name: &str, disk: &Path, options: Options) -> Self {
        Self::of(bed, Vm::on(bed, name, disk, options))
    }

    fn of(bed: &Rc<Bed>, vm: Vm) -> Self {
        let transcript = bed.run.dir().join(format!("{}.transcript", vm.machine().name()));
        Self { bed: Rc::clone(bed), vm, ssh: None, transcript }
    }

    /// Turns the node on and waits until its boot is complete. If the emulated kernel panics before that, the
    /// emulator is the cause. The panic is counted and printed, and the node boots again.
    pub fn power_on(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.power_on_until(None)?;
        self.run_within("systemctl is-system-running --wait", BOOT_LIMIT)?;
        self.note(&format!("booted in {:.1} s", begun.elapsed().as_secs_f32()));
        Ok(())
    }

    /// Turns the node on and waits until ssh works, or until the console shows `words`. In the second case
    /// there is no ssh connection. Returns whether the console showed them. In both cases the boot may not be
    /// complete.
    pub fn power_on_until(&mut self, words: Option<&str>) -> Result<bool> {
        for _ in 0..BOOT_ATTEMPTS {
            if let Some(said) = self.try_power_on(words)? {
                return Ok(said);
            }
            self.vm.power_cut();
        }
        bail!("the emulated kernel panicked in {BOOT_ATTEMPTS} boots, one after another")
    }

    /// Finds out whether KVM boots a node on this machine, unless that is known. Records the result for later
    /// runs.
    pub fn try_accelerator(bed: &Rc<Bed>) -> Result<()> {
        if bed.accel_is_proven() {
            return Ok(());
        }
        let mut node = Self::off(bed, Machine::Node.name(), &bed.image.disk, Options::default())?;
        node.try_power_on(None)?;
        node.power_cut();
        Ok(())
    }

    /// Returns whether the console showed the words, or `None` when the node must be turned on again.
    fn try_power_on(&mut self, words: Option<&str>) -> Result<Option<bool>> {
        self.vm.power_on()?;
        let kvm_on_trial = self.bed.kvm_on_trial();
        let limit = if kvm_on_trial { KVM_LIMIT } else { BOOT_LIMIT };
        match self.wait_for_ssh(limit, words)? {
            Boot::Up(ssh) => {
                self.ssh = Some(ssh);
                self.bed.accel_works();
                return Ok(Some(false));
            }
            Boot::WordsShown => return Ok(Some(true)),
            Boot::Panicked(line) if !kvm_on_trial => {
                self.bed.count_panic();
                println!("bed: the emulated kernel panicked, booting again: {line}");
            }
            Boot::Panicked(why) => self.bed.fall_back(&why),
            Boot::TimedOut if kvm_on_trial => {
                self.bed.fall_back(&format!("no answer within {} s", limit.as_secs()));
            }
            Boot::TimedOut => {
                bail!(
                    "the node did not boot within {} s; its console ends:\n{}",
                    limit.as_secs(),
                    self.console_end()
                )
            }
        }
        Ok(None)
    }

    fn wait_for_ssh(&mut self, limit: Duration, words: Option<&str>) -> Result<Boot> {
        let (bed, vm) = (&self.bed, &mut self.vm);
        let boot = host::poll(limit, Duration::from_millis(300), || {
            Ok(match vm.life()? {
                Life::Panicked(line) => Some(Boot::Panicked(line)),
                Life::Off => Some(Boot::Panicked("QEMU ended".into())),
                Life::Running if words.is_some_and(|words| vm.serial().contains(words)) => {
                    Some(Boot::WordsShown)
                }
                Life::Running => Ssh::connect(bed, vm.machine())?.map(Boot::Up),
            })
        })?;
        Ok(boot.unwrap_or(Boot::TimedOut))
    }

    /// Runs a script in the node. Any exit code is accepted.
    pub fn run(&self, script: &str) -> Result<Output> {
        self.run_within(script, LIMIT)
    }

    /// Runs a script in the node, with another time limit.
    pub fn run_within(&self, script: &str, limit: Duration) -> Result<Output> {
        self.feed(script, &[], limit)
    }

    /// Runs a script that must succeed. Returns its standard output without the last newline.
    pub fn ok(&self, script: &str) -> Result<String> {
        let output = self.run(script)?;
        if output.code != 0 {
            bail!("in the node, `{script}`: {output}");
        }
        Ok(output.stdout.trim_end().to_string())
    }

    /// Runs a script in the node and calls `meanwhile` at the same time. Waits until both have ended.
    pub fn run_while<T>(
        &self,
        script: &str,
        limit: Duration,
        meanwhile: impl FnOnce() -> Result<T>,
    ) -> Result<(Output, T)> {
        // The script runs in the node's background. With a connection of its own, that connection could break
        // too.
        let unit = "bed-meanwhile";
        self.put(&format!("/run/{unit}.sh"), 0o700, script.as_bytes())?;
        self.ok(&format!(
            "cd /run; rm -f {unit}.code; (sh {unit}.sh >{unit}.out 2>{unit}.err; echo $? >{unit}.tmp; mv {unit}.tmp {unit}.code) >/dev/null 2>&1 &"
        ))?;
        let happened = meanwhile();
        // Asks only once a second, because each question slows the script down in an emulated node.
        let code = host::poll(limit, Duration::from_secs(1), || {
            let seen = self.run(&format!("cat /run/{unit}.code 2>/dev/null"))?;
            Ok((seen.code == 0).then(|| seen.stdout.trim().parse().unwrap_or(-1)))
        })?;
        let output = Output {
            code: code.unwrap_or(-1),
            stdout: self.read(&format!("/run/{unit}.out"))?,
            stderr: self.read(&format!("/run/{unit}.err"))?,
        };
        if code.is_none() {
            bail!("in the node, `{script}` did not end within {} s: {output}", limit.as_secs());
        }
        Ok((output, happened?))
    }

    /// Writes a file in the node and makes its directory.
    pub fn put(&self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        let script = format!(
            "set -e; mkdir -p \"$(dirname {path})\"; rm -f {path}; umask 077; cat >{path}; chmod {mode:o} {path}"
        );
        let output = self.feed(&script, content, LIMIT)?;
        if output.code != 0 {
            bail!("cannot write {path} in the node: {output}");
        }
        Ok(())
    }

    /// Copies a file of the host into the node.
    pub fn copy_in(&self, file: &Path, path: &str, mode: u32) -> Result<()> {
        let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.put(path, mode, &content)
    }

    /// Reads a text file of the node.
    pub fn read(&self, path: &str) -> Result<String> {
        let output = self.run(&format!("cat {path}"))?;
        if output.code != 0 {
            bail!("cannot read {path} in the node: {output}");
        }
        Ok(output.stdout)
    }

    /// The journal of a unit in this boot. A unit may end before journald has read its last lines.
    /// `journalctl --sync` returns when journald has read them (journalctl(1)).
    pub fn said(&self, unit: &str) -> Result<String> {
        self.ok(&format!("journalctl --sync; journalctl -b --no-pager -o cat -u {unit}"))
    }

    /// The journal entries of this boot that match the arguments of `journalctl`.
    pub fn journal(&self, arguments: &str) -> Result<Vec<Value>> {
        self.ok(&format!("journalctl --sync; journalctl -b --no-pager -o json {arguments}"))?
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|e| anyhow!("{e} in journal line {line}")))
            .collect()
    }

    /// Reboots the node.
    pub fn reboot(&mut self) -> Result<()> {
        self.note("reboot");
        self.shut_down("systemctl reboot")?;
        self.power_on()
    }

    /// Restarts the node's user space, and not its kernel (systemd-soft-reboot.service(8)).
    pub fn soft_reboot(&mut self) -> Result<()> {
        self.note("soft reboot");
        let count = self.ok("systemctl show --property SoftRebootsCount")?;
        let _ = self.run("systemctl soft-reboot");
        let is_up = format!("[ $(systemctl show --property SoftRebootsCount) != {count} ]");
        let up = host::poll(BOOT_LIMIT, Duration::from_secs(1), || {
            self.ssh = Ssh::connect(&self.bed, self.vm.machine())?;
            Ok(self.run(&is_up).is_ok_and(|output| output.code == 0).then_some(()))
        })?;
        up.context("the node does not come back from a soft reboot")?;
        self.run_within("systemctl is-system-running --wait", BOOT_LIMIT).map(drop)
    }

    /// Shuts the node down and leaves it off.
    pub fn power_off(&mut self) -> Result<()> {
        self.note("power off");
        self.shut_down("systemctl poweroff")
    }

    /// Cuts the power. `power_on` boots the same disks again.
    pub fn power_cut(&mut self) {
        self.note("power cut");
        self.ssh = None;
        self.vm.power_cut();
    }

    fn shut_down(&mut self, how: &str) -> Result<()> {
        // The connection may break before the exit code arrives. The machine's end shows that the command
        // worked.
        let _ = self.run(how);
        self.wait_off()
    }

    /// Waits until the machine is off. The shutdown has already begun.
    pub fn wait_off(&mut self) -> Result<()> {
        self.ssh = None;
        self.vm.wait_off(Duration::from_secs(180)).with_context(|| {
            format!("the node does not shut down; its console ends:\n{}", self.console_end())
        })
    }

    /// Takes a snapshot of the node's memory and disk.
    pub fn save(&mut self, name: &str) -> Result<()> {
        self.save_with(name, || Ok(()))
    }

    /// Takes a snapshot, and calls `beside` while the node is paused, to save what is outside the node.
    pub fn save_with(&mut self, name: &str, beside: impl FnOnce() -> Result<()>) -> Result<()> {
        self.ok("sync")?;
        // The connection is closed first, because it could not continue from a snapshot.
        self.ssh = None;
        self.vm.pause()?;
        let kept = self.vm.save(name).and_then(|()| beside());
        self.vm.go_on()?;
        kept?;
        self.reconnect()
    }

    /// Goes back to a snapshot, in whatever state the node is.
    pub fn load(&mut self, name: &str) -> Result<()> {
        self.note(&format!("back to snapshot {name}"));
        self.ssh = None;
        if self.vm.life()? != Life::Running {
            self.vm.power_cut();
            self.vm.power_on()?;
            let socket_is_there = || Ok(self.vm.load(name).ok());
            host::poll(Duration::from_secs(20), Duration::from_millis(100), socket_is_there)?
                .context("cannot load the snapshot into a new machine")?;
        } else {
            self.vm.load(name)?;
        }
        self.reconnect()
    }

    /// Replaces the content of the node's disk, snapshots and all, by another one's. The node is off then.
    pub fn take_disk(&mut self, from: &Path) -> Result<()> {
        self.power_cut();
        host::copy_sparse(from, self.vm.disk())
    }

    fn reconnect(&mut self) -> Result<()> {
        match self.wait_for_ssh(Duration::from_secs(60), None)? {
            Boot::Up(ssh) => {
                self.ssh = Some(ssh);
                Ok(())
            }
            Boot::Panicked(line) => bail!("the node is gone: {line}"),
            Boot::WordsShown | Boot::TimedOut => {
                bail!("the node does not answer; its console ends:\n{}", self.console_end())
            }
        }
    }

    /// The ssh connection.
    pub fn ssh(&self) -> Result<&Ssh> {
        self.ssh.as_ref().context("the node is off")
    }

    /// The virtual machine.
    pub fn vm(&mut self) -> &mut Vm {
        &mut self.vm
    }

    /// Writes console, journal, denials and the transcript of commands to a directory, to read after a
    /// failure.
    pub fn collect(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("console"), self.vm.serial())?;
        fs::copy(&self.transcript, dir.join("transcript")).ok();
        if let Ok(output) = self.run_within("journalctl -b --no-pager -o short-precise | tail -n 4000", LIMIT)
        {
            fs::write(dir.join("journal"), output.stdout)?;
        }
        // What SELinux denied. On an enforcing node the journal does not have that.
        let denials = "grep -h denied /var/log/audit/audit.log | tail -n 400";
        if let Ok(output) = self.run_within(denials, LIMIT) {
            fs::write(dir.join("denials"), output.stdout)?;
        }
        Ok(())
    }

    /// Starts a new transcript.
    pub fn begin_transcript(&self) {
        fs::remove_file(&self.transcript).ok();
    }

    fn feed(&self, script: &str, input: &[u8], limit: Duration) -> Result<Output> {
        let begun = Instant::now();
        let output = self.ssh()?.run(script, input, limit);
        let told = match &output {
            Ok(output) => output.to_string(),
            Err(error) => format!("{error:#}"),
        };
        self.note(&format!("$ {script}\n  ({:.1} s) {told}", begun.elapsed().as_secs_f32()));
        output
    }

    fn note(&self, text: &str) {
        let file = fs::File::options().create(true).append(true).open(&self.transcript);
        if let Ok(mut file) = file {
            writeln!(file, "{text}").ok();
        }
    }

    fn console_end(&self) -> String {
        let serial = self.vm.serial();
        let lines: Vec<&str> = serial.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// When a journal entry was written, since the kernel's start. `None` if the entry does not tell.
pub fn since_start(entry: &Value) -> Option<Duration> {
    entry["__MONOTONIC_TIMESTAMP"].as_str()?.parse().ok().map(Duration::from_micros)
}
