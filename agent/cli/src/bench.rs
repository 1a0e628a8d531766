//! `bench`

use super::{
    config,
    document::Document,
    env,
    exit::Exit,
    output::{OutputFormat, is_terminal, print_err_part, print_json, print_out},
    values::absolute,
};
use anyhow::Context as _;
use bench::{Summary, Verdict, milliseconds};
use clap::{Args, ValueEnum, ValueHint, value_parser};
use host::{
    Host, mountinfo, process,
    scratch::{self, Place, Scratch, Took},
    terminal::Stream,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use terms::{AbsPath, Bytes, fail};

/// What is measured, and how long.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// A directory on the disk to measure; without it, the disk that holds etcd's data now, from the config
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = absolute())]
    path: Option<PathBuf>,
    /// Also measure this directory, in turns with the first one
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = absolute())]
    against: Option<PathBuf>,
    /// The size of a write; 8000,2300 measures both
    #[arg(long, value_name = "BYTES", default_value = "8000", value_delimiter = ',')]
    size: Vec<Size>,
    /// The number of writes of each size, from 100 to 8000
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = bench::MAX_WRITES,
        value_parser = value_parser!(u32).range(i64::from(bench::MIN_WRITES)..=i64::from(bench::MAX_WRITES))
    )]
    writes: u32,
    #[command(flatten)]
    pub output: OutputFormat,
}

/// The size of a write, in bytes. The larger one is measured first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Size {
    #[value(name = "8000")]
    Block,
    #[value(name = "2300")]
    SmallBlock,
}

impl Options {
    /// The sizes of the writes, each once.
    fn sizes(&self) -> Vec<u32> {
        let sizes: BTreeSet<_> = self.size.iter().collect();
        let bytes = |size| match size {
            Size::Block => bench::BLOCK,
            Size::SmallBlock => bench::SMALL_BLOCK,
        };
        sizes.into_iter().copied().map(bytes).collect()
    }
}

/// The result of one size of writes in one directory.
#[derive(Debug, Serialize, JsonSchema)]
struct Series {
    /// The directory.
    path: String,
    /// The filesystem's type; null if it is not known.
    filesystem: Option<String>,
    /// The device that the filesystem is on; null if it is not known.
    source: Option<String>,
    /// The size of each write in bytes.
    block_bytes: u32,
    #[serde(flatten)]
    summary: Summary,
}

/// What `bench` prints.
pub(super) const BENCH: Document<Run> = Document::under("bench", "bench", "etcd-lun bench --json");

/// The result of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Run {
    /// 99 of 100 calls must finish within this number of nanoseconds.
    limit_ns: u128,
    /// The same for a heavily loaded cluster.
    heavy_limit_ns: u128,
    /// Processes of etcd that ran at the start.
    etcd_pids: Vec<u32>,
    /// The series of the first directory come first.
    series: Vec<Series>,
}

/// Measures, and prints a verdict. The first directory decides the exit code.
pub(super) fn run(file: Option<&Path>, options: &Options) -> Result<(), Exit> {
    let sizes = options.sizes();
    // In a debug pod a path can lead elsewhere after this process has joined PID 1's mount namespace.
    let named: Vec<_> = options.path.iter().chain(&options.against).collect();
    let before: Vec<_> = named.iter().map(|path| scratch::filesystem_id(path)).collect();
    let (host, path) = match &options.path {
        Some(path) => {
            let host = config::FOR_ANYBODY.machine()?.host;
            host.watch_signals().context("setting up signals")?;
            (host, path.clone())
        }
        None => {
            let (host, _, config) = config::TO_LOOK.load(file).map_err(|exit| match exit {
                Exit::Config(mut errors) => {
                    if let Some((_, last)) = errors.last_mut() {
                        last.push_str("; or name a directory: `etcd-lun bench DIR`");
                    }
                    Exit::Config(errors)
                }
                other => other,
            })?;
            let path = dir_on_etcd_disk(&host, &config.etcd.data_dir)?;
            (host, path)
        }
    };
    for (path, before) in named.iter().zip(before) {
        if before.is_some() && before != scratch::filesystem_id(path) {
            fail!(
                BenchPlace,
                "{} is another disk in this pod than on the node, whose mounts count: log in by SSH, and mount it there",
                path.display()
            );
        }
    }
    let mut places = Vec::new();
    for path in std::iter::once(&path).chain(&options.against) {
        places.push(Place::open(&host, path).context("opening a directory to measure")?);
    }
    if let [first, second] = places.as_slice()
        && first.path == second.path
    {
        return Err(Exit::Usage(format!(
            "--against: {} is the directory that is measured already: name another one",
            second.path.display()
        )));
    }
    let parts: Vec<(&Place, u32)> =
        places.iter().flat_map(|place| sizes.iter().map(move |size| (place, *size))).collect();
    for place in &places {
        check_place(place, parts.len())?;
    }
    let etcd_pids = process::named(&host, "etcd").context("looking for etcd")?;
    if !etcd_pids.is_empty() {
        tracing::warn!(
            "etcd is running on this machine: its writes influence these figures, and on the same disk it is slower meanwhile"
        );
    }
    let taken = measure(&host, &parts, options.writes)?;
    let series = parts.iter().zip(&taken).filter_map(|(part, taken)| series(*part, taken)).collect();
    let run = Run {
        limit_ns: bench::LIMIT.as_nanos(),
        heavy_limit_ns: bench::HEAVY_LIMIT.as_nanos(),
        etcd_pids,
        series,
    };
    if options.output.json {
        print_json(&BENCH, &run)?;
    } else {
        print_out(&page(&run));
    }
    // The series of the first directory come first, one for each size.
    let mut of_first = run.series.iter().take(sizes.len());
    match of_first.find(|one| one.summary.verdict == Verdict::TooSlow) {
        Some(slow) => {
            let verdict = verdict_text(&slow.summary);
            Err(Exit::Unhealthy(format!("{}, writes of {} bytes: {verdict}", slow.path, slow.block_bytes)))
        }
        None => Ok(()),
    }
}

/// A directory on the disk that etcd's data is on. If nothing is mounted on the data directory: its parent. Else: the data
/// directory itself, because the mounted filesystem has no other.
fn dir_on_etcd_disk(host: &Host, data_dir: &AbsPath) -> anyhow::Result<PathBuf> {
    let mounts = mountinfo::of_pid1(host).context("finding the disk that etcd's data is on")?;
    let mounted = mounts.iter().any(|mount| mount.mount_point == data_dir.as_str());
    Ok(if mounted { data_dir.as_path().to_owned() } else { data_dir.parent().as_path().to_owned() })
}

/// Refuses a filesystem in memory, and one on which etcd could run out of space meanwhile.
fn check_place(place: &Place, parts: usize) -> anyhow::Result<()> {
    let path = place.path.display();
    if let Some((filesystem, _)) =
        place.filesystem.as_ref().filter(|(filesystem, _)| bench::is_memory(filesystem))
    {
        fail!(BenchPlace, "{path} is on {filesystem}, which is memory: name a directory on a disk");
    }
    // Each place must have space for all series: two places may be on one filesystem.
    let wanted = Bytes(bench::SEGMENT * parts as u64 + bench::SPARE_SPACE);
    let free = place.space().context("asking for free space")?.free;
    if free < wanted {
        fail!(
            BenchPlace,
            "{path} has {free} free, and a run needs {wanted}, so that etcd does not run out of space meanwhile: free some"
        );
    }
    Ok(())
}

fn measure(host: &Host, parts: &[(&Place, u32)], writes: u32) -> anyhow::Result<Vec<Vec<Took>>> {
    let make = |(place, size): &(&Place, u32)| Scratch::make(place, bench::SEGMENT, *size);
    let mut scratches =
        parts.iter().map(make).collect::<Result<Vec<_>, _>>().context("making a scratch file")?;
    let count = usize::try_from(writes).context("counting")?;
    let series = u32::try_from(parts.len()).context("counting")?;
    let watched = is_terminal(Stream::Err) && !env::is_dumb();
    let mut last = Instant::now();
    let mut moved = |done: usize| {
        if watched && last.elapsed() > Duration::from_millis(100) {
            print_err_part(&format!("\r\x1b[K{done} of {} writes", count * parts.len()));
            last = Instant::now();
        }
    };
    let limit = bench::TIME_LIMIT * series;
    let taken = scratch::measure(&mut scratches, count, limit, &host.interrupt, &mut moved);
    if watched {
        print_err_part("\r\x1b[K");
    }
    taken.context("measuring")
}

fn series((place, block_bytes): (&Place, u32), taken: &[Took]) -> Option<Series> {
    let syncs: Vec<_> = taken.iter().map(|took| took.sync).collect();
    let all = taken.iter().map(|took| took.write + took.sync).sum();
    let (filesystem, source) = place.filesystem.clone().unzip();
    let path = place.path.display().to_string();
    Some(Series { path, filesystem, source, block_bytes, summary: Summary::of(&syncs, all)? })
}

/// The result, for a person.
fn page(run: &Run) -> String {
    let mut text =
        String::from("How long fdatasync took after each write, as etcd's own metric counts it:\n\n");
    let _ = writeln!(
        text,
        "{:>6}{:>8}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}  WHERE",
        "BYTES", "WRITES", "WRITES/S", "50 %", "90 %", "99 %", "99.9 %", "SLOWEST"
    );
    for one in &run.series {
        let (summary, times) = (&one.summary, &one.summary.fdatasync_ns);
        let _ = write!(text, "{:>6}{:>8}{:>10}", one.block_bytes, summary.writes, summary.writes_per_second);
        for time in [times.p50, times.p90, times.p99, times.p99_9, times.max] {
            let _ = write!(text, "{:>11}", milliseconds(time));
        }
        let _ = writeln!(text, "  {}", one.path);
    }
    let mut place = "";
    for one in &run.series {
        if place != one.path {
            place = &one.path;
            let on = one.filesystem.as_deref().zip(one.source.as_deref());
            let on =
                on.map(|(filesystem, source)| format!(" ({filesystem} on {source})")).unwrap_or_default();
            let _ = writeln!(text, "\n{place}{on}");
        }
        let _ = writeln!(text, "  writes of {} bytes: {}", one.block_bytes, verdict_text(&one.summary));
    }
    text
}

fn verdict_text(summary: &Summary) -> String {
    let said = match summary.verdict {
        Verdict::FastEnoughForHeavyClusters => {
            "fast enough for etcd, also in a heavily loaded cluster (below 2 ms)"
        }
        Verdict::FastEnough => {
            "fast enough for etcd (below 10 ms), not in a heavily loaded cluster (below 2 ms)"
        }
        Verdict::TooSlow => "TOO SLOW for etcd, which needs less than 10 ms",
    };
    let p99 = bench::beside_limits(summary.fdatasync_ns.p99);
    format!("99 of 100 within {p99}: {said}")
}
