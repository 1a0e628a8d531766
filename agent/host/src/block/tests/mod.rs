//! Devices in sparse files, beneath a root of their own.

mod devices;
mod facts;
mod formats;
mod unfinished;

use super::*;
use crate::{
    ExecError, Interrupt, Invocation, Output, Root, Runner, Tool, exec::SEARCH, system::SystemRunner,
};
use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A device `img`.
struct Bench {
    host: Host,
    base: PathBuf,
    image: PathBuf,
}

impl Bench {
    /// With the real tools of this machine.
    fn new(size: u64) -> Self {
        Self::with(size, Box::new(SystemRunner::new(Interrupt::never()).unwrap()))
    }

    /// With a blkid that always gives this result.
    fn scripted(size: u64, code: i32, stdout: &str) -> Self {
        Self::with(size, Box::new(Scripted(Output { code, stdout: stdout.into(), stderr: String::new() })))
    }

    fn with(size: u64, runner: Box<dyn Runner>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("etcd-lun-block-{}-{number}", std::process::id()));
        fs::create_dir_all(base.join("dev")).unwrap();
        let image = base.join("dev/img");
        File::create(&image).unwrap().set_len(size).unwrap();
        Self { host: Host::fixture(Root::new(&base), runner).unwrap(), base, image }
    }

    fn file(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.image).unwrap()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.file().write_all_at(bytes, at).unwrap();
    }

    fn probe(&self) -> Content {
        probe(&self.host, "img", None).unwrap()
    }

    /// Returns a host with a blkid that ends with this code and prints nothing.
    fn probe_as(&self, code: i32) -> Content {
        let host =
            Host::fixture(self.host.root.clone(), Box::new(Scripted(Output { code, ..Output::default() })));
        probe(&host.unwrap(), "img", None).unwrap()
    }

    /// The bytes at all known places.
    fn bytes(&self) -> Vec<u8> {
        let size = self.file().metadata().unwrap().len();
        let mut all = Vec::new();
        for (range, _) in places::places(size) {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            self.file().read_exact_at(&mut bytes, range.start).unwrap();
            all.append(&mut bytes);
        }
        all
    }

    /// Runs a shell line with `$D` set to the image; false if its first program isn't installed.
    fn shell(&self, line: &str) -> bool {
        let tool = line.split_whitespace().next().unwrap();
        if !SEARCH.iter().any(|dir| Path::new(dir).join(tool).is_file()) {
            println!("left out, {tool} is not installed: {line}");
            return false;
        }
        let ran = Command::new("sh")
            .args(["-c", line])
            .env("D", &self.image)
            .env("PBKDF", "--pbkdf pbkdf2 --pbkdf-force-iterations 1000") // fast, not strong
            .env("PATH", SEARCH.join(":"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        true
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).unwrap();
    }
}

/// Recordings of devices, for machines without the tools that made them: what blkid printed, the size, and all sectors
/// at the known places that are not zero, as offset and bytes without the zeros at their end.
struct Recorded {
    code: i32,
    stdout: String,
    size: u64,
    sectors: Vec<(u64, Vec<u8>)>,
}

impl Recorded {
    fn parse(text: &str) -> Self {
        let mut recorded = Self { code: -1, stdout: String::new(), size: 0, sectors: Vec::new() };
        for line in text.lines() {
            let (key, value) = line.split_once(' ').unwrap();
            match key {
                "code" => recorded.code = value.parse().unwrap(),
                "size" => recorded.size = value.parse().unwrap(),
                "blkid" => recorded.stdout += &format!("{value}\n"),
                "#" => {}
                at => {
                    let byte = |at| u8::from_str_radix(value.get(at..at + 2).unwrap(), 16).unwrap();
                    let bytes = (0..value.len()).step_by(2).map(byte).collect();
                    recorded.sectors.push((at.parse().unwrap(), bytes));
                }
            }
        }
        recorded
    }

    fn play(&self) -> Bench {
        let bench = Bench::scripted(self.size, self.code, &self.stdout);
        for (at, bytes) in &self.sectors {
            bench.write(*at, bytes);
        }
        bench
    }
}

#[derive(Debug)]
struct Scripted(Output);

impl Runner for Scripted {
    fn run(&self, what: &Invocation, _: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        assert_eq!(what.tool, Tool::Blkid);
        Ok(self.0.clone())
    }

    fn has(&self, _: Tool) -> bool {
        true
    }
}
