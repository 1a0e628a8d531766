//! A virtual machine: its disks, its power switch, its serial console and its snapshots.

use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bed::{Accel, Bed};
use crate::net::{Machine, Path};
use crate::{host, image, qmp};

/// Whether the guest's kernel enforces SELinux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selinux {
    /// SELinux is off.
    Off,
    /// SELinux enforces, under Debian's policy.
    Enforcing,
}

/// The options of a machine. They take effect at the next power-on.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// SELinux's state.
    pub selinux: Selinux,
    /// The number of processors.
    pub cpus: u32,
    /// The memory in MiB.
    pub memory_mib: u32,
    /// A host name, instead of the image's.
    pub hostname: Option<&'static str>,
    /// Which machine it is on the networks.
    pub machine: Machine,
}

impl Default for Options {
    fn default() -> Self {
        Self { selinux: Selinux::Off, cpus: 1, memory_mib: 1536, hostname: None, machine: Machine::Node }
    }
}

/// A virtio disk, besides the machine's own disk.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Its name in QEMU.
    pub id: &'static str,
    /// Its file, in raw format.
    pub file: PathBuf,
    /// Its serial number.
    pub serial: &'static str,
    /// Whether it is attached when the machine is turned on.
    pub plugged: bool,
}

impl Disk {
    /// The QEMU device. The guest numbers disks by slot and boots from the first one, so these disks get
    /// higher slots.
    fn device(&self, number: usize) -> String {
        format!("virtio-blk-pci,drive={0},id={0},serial={1},addr={2:#x}", self.id, self.serial, 16 + number)
    }

    fn drive(&self) -> String {
        format!("file={},if=none,id={},format=raw", self.file.display(), self.id)
    }
}

/// The state of a machine, as its process and its console show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// QEMU runs.
    Running,
    /// QEMU has ended: the guest powered off or wants to reboot.
    Off,
    /// The guest's kernel panicked, or KVM cannot run it.
    Panicked(String),
}

/// A virtual machine.
#[derive(Debug)]
pub struct Vm {
    bed: Rc<Bed>,
    options: Options,
    disk: PathBuf,
    format: &'static str,
    serial: PathBuf,
    socket: PathBuf,
    more_disks: Vec<Disk>,
    process: Option<Child>,
}

impl Vm {
    /// A machine that is off. Its disk begins with the content of `base`, which stays unchanged.
    pub fn new(bed: &Rc<Bed>, name: &str, base: &FilePath, options: Options) -> Result<Self> {
        let disk = bed.run.dir().join(format!("{name}.qcow2"));
        image::overlay(base, &disk)?;
        Ok(Self::with(bed, name, disk, "qcow2", options))
    }

    /// A machine that is off, on a raw disk that the caller owns. It cannot take snapshots.
    pub fn on(bed: &Rc<Bed>, name: &str, disk: &FilePath, options: Options) -> Self {
        Self::with(bed, name, disk.to_path_buf(), "raw", options)
    }

    fn with(bed: &Rc<Bed>, name: &str, disk: PathBuf, format: &'static str, options: Options) -> Self {
        let file = |what: &str| bed.run.dir().join(format!("{name}.{what}"));
        let (serial, socket) = (file("serial"), file("qmp"));
        Self {
            bed: Rc::clone(bed),
            options,
            disk,
            format,
            serial,
            socket,
            more_disks: Vec::new(),
            process: None,
        }
    }

    /// The file of the machine's own disk.
    pub fn disk(&self) -> &FilePath {
        &self.disk
    }

    /// Sets the options for the next power-on.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    /// Sets the disks besides the machine's own, for the next power-on.
    pub fn set_disks(&mut self, disks: Vec<Disk>) {
        self.more_disks = disks;
    }

    /// Attaches one of these disks to the running machine. This works once per power-on.
    pub fn plug(&self, id: &str) -> Result<()> {
        let mut disks = self.more_disks.iter().enumerate();
        let (number, disk) = disks.find(|(_, disk)| disk.id == id).context("there is no such disk")?;
        let command = format!("device_add {}", disk.device(number));
        qmp::monitor(&self.socket, &command).context("cannot attach a disk")
    }

    /// Attaches another disk to the running machine. It stays attached at later power-ons.
    pub fn attach(&mut self, disk: Disk) -> Result<()> {
        let drive = format!("drive_add 0 {}", disk.drive());
        // This command prints OK when it succeeds. Other commands print nothing.
        qmp::monitor_saying(&self.socket, &drive, "OK").context("cannot open a disk")?;
        let command = format!("device_add {}", disk.device(self.more_disks.len()));
        self.more_disks.push(disk);
        qmp::monitor(&self.socket, &command).context("cannot attach a disk")
    }

    /// Limits the machine's writes to one of its disks, in bytes per second, until the machine is turned off.
    pub fn slow_writes(&self, id: &str, bytes: u64) -> Result<()> {
        let command = format!("block_set_io_throttle {id} 0 0 {bytes} 0 0 0");
        qmp::monitor(&self.socket, &command).context("cannot slow a disk down")
    }

    /// Asks the running machine to detach a disk. The disk is detached when the guest no longer shows it.
    pub fn unplug(&self, id: &str) -> Result<()> {
        qmp::monitor(&self.socket, &format!("device_del {id}")).context("cannot detach a disk")
    }

    /// Turns the machine on and returns at once. `node` waits for the boot.
    pub fn power_on(&mut self) -> Result<()> {
        if self.process.is_some() {
            bail!("the machine is on already");
        }
        fs::remove_file(&self.socket).ok();
        // All power-ons share one file, because a failure is easier to read in one file.
        let log = fs::File::options().create(true).append(true).open(self.log_file())?;
        if self.serial.exists() {
            fs::rename(&self.serial, self.serial.with_extension("serial.before"))?;
        }
        let mut qemu = self.qemu();
        qemu.stdout(log.try_clone()?).stderr(log);
        self.process = Some(self.bed.run.spawn(&mut qemu, "qemu")?);
        Ok(())
    }

    /// Ends the machine as a power cut would. The guest's unflushed writes are lost.
    pub fn power_cut(&mut self) {
        if let Some(mut child) = self.process.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Waits until the guest has turned itself off. A reboot also ends QEMU.
    pub fn wait_off(&mut self, limit: Duration) -> Result<()> {
        let Some(child) = &mut self.process else { return Ok(()) };
        if host::wait(child, limit).is_none() {
            bail!("the node did not turn itself off within {} s", limit.as_secs());
        }
        self.process = None;
        match self.life()? {
            Life::Panicked(line) => bail!("the node's kernel panicked during the shutdown: {line}"),
            _ => Ok(()),
        }
    }

    /// Which machine it is on the networks.
    pub fn machine(&self) -> Machine {
        self.options.machine
    }

    /// The machine's state.
    pub fn life(&mut self) -> Result<Life> {
        let ended = match &mut self.process {
            Some(child) => child.try_wait()?.is_some(),
            None => true,
        };
        if let Some(line) = self.serial().lines().find(|line| line.contains("Kernel panic")) {
            return Ok(Life::Panicked(line.trim().to_string()));
        }
        // QEMU stops the processor and keeps running. This happens early where KVM has no support from the
        // processor. The log covers all power-ons, but a trial of KVM is the first one.
        if self.bed.kvm_on_trial()
            && let Some(line) = self.log().lines().find(|line| line.starts_with("KVM internal error"))
        {
            return Ok(Life::Panicked(line.trim().to_string()));
        }
        Ok(if ended { Life::Off } else { Life::Running })
    }

    /// Everything that the console showed since the last power-on.
    pub fn serial(&self) -> String {
        let bytes = fs::read(&self.serial).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// QEMU's own output, over all power-ons.
    fn log(&self) -> String {
        let bytes = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_file(&self) -> PathBuf {
        self.serial.with_extension("qemu.log")
    }

    /// Stops the machine's processors.
    pub fn pause(&self) -> Result<()> {
        qmp::monitor(&self.socket, "stop").context("cannot pause the machine")
    }

    /// Starts the machine's processors again.
    pub fn go_on(&self) -> Result<()> {
        qmp::monitor(&self.socket, "cont").context("cannot resume the machine")
    }

    /// Takes a snapshot of the running machine, memory and disk.
    pub fn save(&self, name: &str) -> Result<()> {
        qmp::monitor(&self.socket, &format!("savevm {name}")).context("cannot take a snapshot")
    }

    /// Goes back to a snapshot. The machine must be on.
    pub fn load(&self, name: &str) -> Result<()> {
        qmp::monitor(&self.socket, &format!("loadvm {name}")).context("cannot load a snapshot")
    }

    /// Whether the bed has turned the machine on.
    pub fn is_on(&self) -> bool {
        self.process.is_some()
    }

    fn qemu(&self) -> Command {
        let image = &self.bed.image;
        let mut qemu = self.bed.net.command("qemu-system-x86_64");
        match self.bed.accel() {
            Accel::Kvm => qemu.args(["-accel", "kvm", "-cpu", "host,-arch-capabilities"]),
            // Nehalem and not max: the emulator failed with newer models, mostly because of AVX.
            Accel::Tcg => qemu.args(["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Nehalem"]),
        };
        qemu.args(["-M", "pc", "-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-smp", &self.options.cpus.to_string(), "-m", &self.options.memory_mib.to_string()])
            .arg("-kernel")
            .arg(&image.kernel)
            .arg("-initrd")
            .arg(&image.initrd)
            .args(["-append", &self.kernel_arguments()])
            .args(["-drive", &format!("file={},if=virtio,format={}", self.disk.display(), self.format)])
            .args(["-device", "virtio-rng-pci"])
            .args(["-serial", &format!("file:{}", self.serial.display())])
            .args(["-qmp", &format!("unix:{},server=on,wait=off", self.socket.display())]);
        for (number, disk) in self.more_disks.iter().enumerate() {
            qemu.args(["-drive", &disk.drive()]);
            if disk.plugged {
                qemu.args(["-device", &disk.device(number)]);
            }
        }
        for (number, path) in Path::ALL.iter().enumerate() {
            let (tap, mac) = (path.tap(self.machine()), path.mac(self.machine()));
            qemu.args(["-netdev", &format!("tap,id=n{number},ifname={tap},script=no,downscript=no")]);
            qemu.args(["-device", &format!("virtio-net-pci,netdev=n{number},mac={mac}")]);
        }
        qemu
    }

    fn kernel_arguments(&self) -> String {
        // panic=1 with -no-reboot: a panic ends QEMU, and the serial log then shows the panic. So it is no
        // normal reboot.
        let mut common =
            "root=/dev/vda rw console=ttyS0 panic=1 net.ifnames=0 mitigations=off loglevel=4".to_string();
        if let Some(name) = self.options.hostname {
            common += &format!(" systemd.hostname={name}");
        }
        match self.options.selinux {
            Selinux::Off => format!(
                "{common} selinux=0 audit=0 systemd.mask=auditd.service systemd.mask=audit-rules.service \
                 systemd.mask=selinux-autorelabel-mark.service"
            ),
            // The backlog holds audit messages until auditd runs.
            Selinux::Enforcing => {
                format!("{common} security=selinux selinux=1 enforcing=1 audit=1 audit_backlog_limit=65536")
            }
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.power_cut();
    }
}
