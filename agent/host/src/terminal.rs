//! Standard output and standard error of a run that must not wait for its terminal.
//!
//! A write to a terminal that nobody reads blocks as soon as its buffer is full. The terminal of `oc debug` goes through the
//! API server, which stands still when etcd does: the run would then wait for an end that only itself can bring.

use nix::{
    libc,
    sys::stat::{SFlag, fstat},
};
use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    os::{fd::AsFd, unix::process::CommandExt as _},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The texts that are kept while the terminal takes none. A run prints two or three for each step; further ones are lost.
const KEPT: usize = 1024;

/// Forgets what was typed at the terminal of standard input and was not read (tcflush(3)).
pub fn discard_input() -> io::Result<()> {
    Ok(rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush)?)
}

/// The columns and the rows of a terminal; none for what is no terminal, and for one that does not know its size.
pub fn size(of: impl AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(of).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0)?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// Shows a text with a pager, which is a command for a shell. The pager takes the place of this process, so that the terminal's
/// signals are its own. Returns only if that fails.
pub fn become_pager(pager: &str, text: &str) -> io::Result<()> {
    let mut file = File::from(rustix::fs::memfd_create("etcd-lun", rustix::fs::MemfdFlags::empty())?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Err(Command::new("/bin/sh").args(["-c", pager]).stdin(file).exec())
}

/// Returns true if nobody reads any more what a write with this error was for: a pipe's other end is closed, or the terminal
/// is. The kernel answers a write to a closed terminal with EIO (tty_write() in drivers/tty/tty_io.c), and a file on a
/// failing disk has the same error.
pub fn reader_has_gone(error: &io::Error, to: impl AsFd) -> bool {
    // isatty(3) fails on a terminal that was closed.
    let is_character_device = || {
        fstat(to).is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR)
    };
    match error.raw_os_error() {
        Some(libc::EPIPE) => true,
        Some(libc::EIO) => is_character_device(),
        _ => false,
    }
}

/// Returns true if a stream is the one that `$JOURNAL_STREAM` names: device and inode number in decimal, with a colon
/// between (systemd.exec(5)).
pub fn is_journal(stream: impl AsFd, journal_stream: &str) -> bool {
    fstat(stream).is_ok_and(|found| journal_stream == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Both streams, written by a thread of their own.
#[derive(Debug)]
pub struct Terminal {
    queue: SyncSender<(Stream, String)>,
    waiting: Arc<AtomicUsize>,
}

impl Terminal {
    /// Starts the thread. `write` writes a text and waits until it is written.
    pub fn start(mut write: impl FnMut(Stream, &str) -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let (queue, texts) = sync_channel::<(Stream, String)>(KEPT);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        std::thread::Builder::new().name("terminal".into()).spawn(move || {
            for (stream, text) in texts {
                // The terminal may be gone (EIO, EPIPE). The journal has the same text.
                let _gone = write(stream, &text);
                left.fetch_sub(1, Ordering::SeqCst);
            }
        })?;
        Ok(Self { queue, waiting })
    }

    /// Has a text written, and does not wait. The text is lost if too many wait already.
    pub fn write(&self, stream: Stream, text: &str) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.queue.try_send((stream, text.to_owned())).is_err() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits until all texts are written, or for the limit.
    pub fn finish(&self, limit: Duration) {
        let begun = Instant::now();
        while self.waiting.load(Ordering::SeqCst) > 0 && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn in_order_and_complete() {
        let (sent, written) = channel();
        let terminal = Terminal::start(move |stream, text| {
            sent.send((stream, text.to_owned())).unwrap();
            Err(io::ErrorKind::BrokenPipe.into())
        })
        .unwrap();
        for number in 0..100 {
            terminal.write(if number % 2 == 0 { Stream::Out } else { Stream::Err }, &number.to_string());
        }
        terminal.finish(Duration::from_secs(60));
        let written: Vec<_> = written.try_iter().collect();
        assert_eq!(written.len(), 100);
        assert_eq!(written[0], (Stream::Out, "0".into()));
        assert_eq!(written[99], (Stream::Err, "99".into()));
    }

    #[test]
    fn a_terminal_that_takes_nothing_stops_nobody() {
        let (open, closed) = channel::<()>();
        let terminal = Terminal::start(move |_, _| {
            closed.recv().ok();
            Ok(())
        })
        .unwrap();
        let begun = Instant::now();
        for _ in 0..KEPT * 3 {
            terminal.write(Stream::Err, "x");
        }
        terminal.finish(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(terminal.waiting.load(Ordering::SeqCst) >= KEPT);
        drop(open);
        terminal.finish(Duration::from_secs(60));
        assert_eq!(terminal.waiting.load(Ordering::SeqCst), 0);
    }
}
