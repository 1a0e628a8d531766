//! Writes log events as lines on standard error: level, message, then fields.

use std::fmt::{self, Write as _};
use tracing::Subscriber;
use tracing_subscriber::{
    Layer,
    field::MakeExt as _,
    fmt::{MakeWriter, format, layer},
    registry::LookupSpan,
};

/// Writes each event as one line, or as several lines if its message has several. It leaves out the time, which the journal
/// has, and target and colours, which nobody needs.
pub(super) fn lines<S, W>(to: W) -> impl Layer<S>
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
    let layer = layer().with_writer(to).with_ansi(false).with_target(false).without_time();
    layer.fmt_fields(fields.delimited(" "))
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
            tracing_subscriber::registry().with(LevelFilter::DEBUG).with(lines(move || writer.clone()));
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
}
