//! Writes log events as lines on standard error: level, message, then fields.

use super::output::Errors;
use std::fmt::{self, Write as _};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    Layer,
    field::MakeExt as _,
    fmt::{MakeWriter, format, layer},
    registry::LookupSpan,
};

/// Writes each event as one line, or as several lines if its message has several. It leaves out the time, which the journal
/// has, and target and colours, which nobody needs; `level` says whether it has the level.
pub(super) fn lines<S, W>(to: W, level: bool) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    let fields = format::debug_fn(|line, field, value| {
        let mut line = Plain(line);
        match field.name() {
            "message" => write!(line, "{value:?}"),
            name => write!(line, "{name}={value:?}"),
        }
    });
    let layer = layer().with_writer(to).with_ansi(false).with_target(false).without_time().with_level(level);
    layer.fmt_fields(fields.delimited(" "))
}

/// Writes events for journald to standard error, where a unit's goes: each line begins with its level (sd-daemon(3)), the same that
/// tracing-journald gives it.
pub(super) struct Leveled;

impl<'a> MakeWriter<'a> for Leveled {
    type Writer = OfLevel;

    fn make_writer(&'a self) -> OfLevel {
        OfLevel(5)
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> OfLevel {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        OfLevel(3 + levels.iter().position(|level| level == event.level()).unwrap_or(2))
    }
}

/// Writes lines of one level.
pub(super) struct OfLevel(usize);

impl std::io::Write for OfLevel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let lines: String = text.lines().map(|line| format!("<{}>{line}\n", self.0)).collect();
        std::io::Write::write_all(&mut Errors, lines.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Escapes control characters. The output of tools is untrusted input and must not control a terminal. The formatter itself
/// escapes some control characters, but not all: with a carriage return a text could overwrite what is before it.
struct Plain<W>(W);

impl<W: fmt::Write> fmt::Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '\n' | '\t' => self.0.write_char(letter)?,
                letter if letter.is_control() => write!(self.0, "{}", letter.escape_default())?,
                letter => self.0.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::{
        io,
        sync::{Arc, Mutex},
    };
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::layer::SubscriberExt as _;

    /// Standard error whose lines can be read.
    #[derive(Clone, Default)]
    pub(in super::super) struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        pub(in super::super) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn as_a_person_reads_them() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber =
            tracing_subscriber::registry().with(LevelFilter::DEBUG).with(lines(move || writer.clone(), true));
        tracing::subscriber::with_default(subscriber, || {
            let name = "multipathd";
            tracing::warn!("{name} runs");
            tracing::error!(STEP = "copy", count = 7, "failed:\n\tat once");
            tracing::debug!(code = 1, stdout = "a\"b", "ran \u{1b}[31m{name}\u{7}\r\u{9b}");
            tracing::trace!("nobody asked");
        });
        let expected = " WARN multipathd runs\n\
                        ERROR failed:\n\tat once STEP=\"copy\" count=7\n\
                        DEBUG ran \\u{1b}[31mmultipathd\\u{7}\\r\\u{9b} code=1 stdout=\"a\\\"b\"\n";
        assert_eq!(kept.text(), expected);
    }

    #[test]
    fn as_journald_reads_them() {
        struct Numbers(Arc<Mutex<Vec<usize>>>);
        impl<S: Subscriber> Layer<S> for Numbers {
            fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
                self.0.lock().unwrap().push(Leveled.make_writer_for(event.metadata()).0);
            }
        }
        let numbers = Arc::default();
        let subscriber = tracing_subscriber::registry().with(Numbers(Arc::clone(&numbers)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("a");
            tracing::warn!("a");
            tracing::info!("a");
            tracing::debug!("a");
            tracing::trace!("a");
        });
        assert_eq!(*numbers.lock().unwrap(), [3, 4, 5, 6, 7]);
    }
}
