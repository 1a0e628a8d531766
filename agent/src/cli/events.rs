//! Log events as lines on standard error, and what `tracing-journald` is put on.
//!
//! The layer and the registry that `tracing-subscriber` has for this keep spans, times and colours, of which we use nothing, and
//! cost an eightieth of the program. Their lines are kept: level, message, then fields.

use std::fmt::{self, Write as _};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::registry::{Extensions, ExtensionsMut, LookupSpan, SpanData};

/// Takes events up to a level. There are no spans.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) level: LevelFilter,
    /// Whether they go to standard error, or only to the layer above.
    pub(super) printed: bool,
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        if self.printed {
            super::complain(&line(*event.metadata().level(), |line| event.record(line)));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What a layer asks for: of a span, nothing is known.
impl<'a> LookupSpan<'a> for Events {
    type Data = NoSpan;

    fn span_data(&'a self, _: &Id) -> Option<NoSpan> {
        None
    }
}

#[derive(Debug)]
pub(super) enum NoSpan {}

impl SpanData<'_> for NoSpan {
    fn id(&self) -> Id {
        match *self {}
    }

    fn metadata(&self) -> &'static Metadata<'static> {
        match *self {}
    }

    fn parent(&self) -> Option<&Id> {
        match *self {}
    }

    fn extensions(&self) -> Extensions<'_> {
        match *self {}
    }

    fn extensions_mut(&self) -> ExtensionsMut<'_> {
        match *self {}
    }
}

/// One event; the message may be of several lines.
fn line(level: Level, record: impl FnOnce(&mut dyn Visit)) -> String {
    let mut line = Line(format!("{level:>5}"));
    record(&mut line);
    line.0
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push(' ');
        if field.name() != "message" {
            self.0.extend([field.name(), "="]);
        }
        // Fails never: it is memory.
        let _written = write!(Plain(&mut self.0), "{value:?}");
    }
}

/// What tools say may hold anything, and must not steer a terminal.
struct Plain<'a>(&'a mut String);

impl fmt::Write for Plain<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '\n' | '\t' => self.0.push(letter),
                letter if letter.is_control() => self.0.extend(letter.escape_default()),
                letter => self.0.push(letter),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// An `Events` whose lines can be read.
    struct Kept(Events, Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.0.enabled(metadata)
        }

        fn event(&self, event: &Event<'_>) {
            let line = line(*event.metadata().level(), |line| event.record(line));
            self.1.lock().unwrap().push(line);
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.new_span(span)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn lines() {
        let lines = Arc::default();
        let events = Events { level: LevelFilter::DEBUG, printed: false };
        tracing::subscriber::with_default(Kept(events, Arc::clone(&lines)), || {
            let name = "multipathd";
            tracing::warn!("{name} runs");
            tracing::error!(STEP = "copy", count = 7, "failed:\n\tat once");
            tracing::debug!(code = 1, stdout = "a\"b", "ran \u{1b}[31m{name}\u{7}\u{9b}");
            tracing::trace!("nobody asked");
        });
        let expected = [
            " WARN multipathd runs",
            "ERROR failed:\n\tat once STEP=\"copy\" count=7",
            "DEBUG ran \\u{1b}[31mmultipathd\\u{7}\\u{9b} code=1 stdout=\"a\\\"b\"",
        ];
        assert_eq!(*lines.lock().unwrap(), expected);
    }
}
