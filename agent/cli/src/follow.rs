//! Following a run that somebody else has started.

use super::{exit::Exit, output::print_err};
use apply::{
    alone,
    run_file::{self, RunState},
};
use host::{Host, exec::one_line, filelock::lock_holders};
use node::layout::{LOCK, RUN_FILE};
use std::{fmt::Write as _, time::Duration};
use terms::{fail, named};

/// How often the file of the run is read.
const PAUSE: Duration = Duration::from_millis(300);

/// Says what the other run does, follows it to its end and prints its further lines. If it fails, and is what was asked for here,
/// its exit code is this process's. A run at a boot that fails is not: what nobody has asked for may do less.
///
/// That it says to have succeeded is no proof: the confined service can write to the file of the run. So the caller then runs
/// itself, and finds nothing to do.
pub(super) fn run(host: &Host, verb: &str, other: RunState, follow: bool) -> Result<(), Exit> {
    let what = describe(&other);
    if !follow {
        fail!(
            AnotherRun,
            "{what}; it was not followed (--no-follow): nothing is done until it has ended, see `journalctl -t etcd-lun -f`"
        );
    }
    print_err(&format!("{what}. Following it to its end; Ctrl-C ends only the following."));
    let last = to_the_end(host, other, &mut print_err)?;
    let Some(mut result) = last.result else { return Err(Exit::Error(was_killed(&last))) };
    result.text = clean(&result.text);
    if !does(&last.verb, verb) {
        print_err(&result.text);
        fail!(
            AnotherRun,
            "that was `{}`, with exit code {}, and nothing was done for this `{verb}`: run `etcd-lun {verb}` again",
            clean(&last.verb),
            result.code
        );
    }
    if result.code != 0 && last.verb == verb {
        return Err(Exit::Followed(Box::new(result)));
    }
    print_err(&format!("That run has ended with: {} This run looks at the node itself now.", result.text));
    Ok(())
}

/// Whether the other run has done what `verb` asks for: the service at boot does what `apply` does.
fn does(other: &str, verb: &str) -> bool {
    other == verb || other.split(' ').next() == Some(verb)
}

/// Says what a run is, since when it is at work, and at which step.
pub(super) fn describe(run: &RunState) -> String {
    let mut text = format!(
        "`etcd-lun {}` runs already (process {}), for {}",
        clean(&run.verb),
        run.pid,
        age(run.age().as_secs())
    );
    if !run.step.is_empty() {
        let _ = write!(text, ", at the step {}", clean(&run.step));
    }
    text
}

/// The run that is at work now. One that was killed has left its file, and holds no lock.
pub(super) fn at_work(host: &Host) -> Option<RunState> {
    let run = run_file::read(host).ok().flatten().filter(|run| run.result.is_none())?;
    let holders = lock_holders(host, LOCK).ok()?;
    holders.iter().any(|holder| run.may_be(holder.pid)).then_some(run)
}

/// Says since when a run is at work, and at which step.
pub(super) fn under_way(run: &RunState) -> String {
    let age = age(run.age().as_secs());
    format!("UNDER WAY for {age}: `etcd-lun {}`, {}", clean(&run.verb), clean(&run.step))
}

/// Looks, and again if a run has ended meanwhile: it may have been seen half before and half after what the run did. Also returns
/// the run that is at work after the look.
pub(super) fn settled<T>(host: &Host, look: impl Fn() -> T) -> (T, Option<RunState>) {
    let was_at_work = at_work(host).is_some();
    match (look(), at_work(host)) {
        (_, None) if was_at_work => (look(), at_work(host)),
        seen => seen,
    }
}

/// Seconds in the two largest units that are needed.
pub(super) fn age(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Shows each further line of the run. Returns its last state; one without a result if it was killed.
fn to_the_end(host: &Host, first: RunState, show: &mut dyn FnMut(&str)) -> Result<RunState, Exit> {
    let mut seen = first.lines.len();
    loop {
        // Before the file is read, because a run writes its result before it releases the lock.
        let goes_on = alone::is_taken(host)?;
        let now = match run_file::read(host) {
            Ok(Some(now)) if now.is_of_same_run(&first) => now,
            Ok(Some(_)) => {
                fail!(
                    FollowingEnded,
                    "the run that was followed has ended, and another one has begun: how it ended is in `journalctl -t etcd-lun`"
                );
            }
            Ok(None) => return Err(lost("it is gone")),
            Err(why) => return Err(lost(&why)),
        };
        now.lines.iter().skip(seen).for_each(|line| show(&shown(line)));
        seen = now.lines.len();
        if now.result.is_some() || !goes_on {
            return Ok(now);
        }
        host.pause(PAUSE).map_err(|_| {
            named!(
                FollowingEnded,
                "interrupted: only the following has ended; `etcd-lun {}` (process {}) goes on, see `journalctl -t etcd-lun -f`",
                clean(&first.verb),
                first.pid
            )
        })?;
    }
}

fn lost(why: &str) -> Exit {
    named!(
        FollowingEnded,
        "the run cannot be followed any more, because {RUN_FILE} cannot be read ({why}): see `journalctl -t etcd-lun -f`"
    )
    .into()
}

fn was_killed(run: &RunState) -> anyhow::Error {
    let verb = clean(&run.verb);
    let again = verb.split(' ').next().unwrap_or("apply");
    named!(
        RunKilled,
        "`etcd-lun {verb}` (process {}) was killed before its end: etcd may be stopped. Run `etcd-lun {again}`, which goes on from there",
        run.pid
    )
    .into()
}

/// A text of the file without what could control a terminal, on one line.
pub(super) fn clean(text: &str) -> String {
    one_line(text)
}

/// A line of the other run, with the indent that results of steps have.
fn shown(line: &str) -> String {
    let indent = &line[..line.len() - line.trim_start_matches(' ').len()];
    format!("{indent}{}", clean(line))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the machine of a test
mod tests {
    use super::super::{
        events::{lines, tests::Kept},
        progress::Progress,
    };
    use super::*;
    use apply::{Watcher as _, alone::Turn, run_file::RunResult};
    use hands::{Door, Requester, Socket};
    use host::{Root, transcript::NoTools};
    use std::{path::PathBuf, time::Instant};
    use tracing_subscriber::{layer::SubscriberExt as _, registry};

    /// A machine on which one run begins, and its end. `/proc` is the real one: it has the holder of the lock.
    struct Machine(PathBuf, Host);

    fn door(host: &Host) -> Door<'_> {
        Door::to(host, Requester::Person, Box::new(Socket))
    }

    impl Machine {
        fn new(test: &str) -> Self {
            let base = std::env::temp_dir().join(format!("etcd-lun-follow-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&base).unwrap();
            std::os::unix::fs::symlink("/proc", base.join("proc")).unwrap();
            let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
            Self(base, host)
        }

        fn turn(&self) -> Turn<'_> {
            alone::turn(&door(&self.1), "apply").unwrap()
        }

        fn put(&self, text: &str) {
            std::fs::write(self.0.join("run/etcd-lun/run"), text).unwrap();
        }

        fn follow(&self, run: RunState) -> String {
            to_the_end(&self.1, run, &mut |_| {}).unwrap_err().line().unwrap()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn result(code: u8, text: &str) -> RunResult {
        RunResult { code, text: text.into(), json: serde_json::json!({ "version": 1 }) }
    }

    #[test]
    fn only_further_lines_and_the_result() {
        let machine = Machine::new("end");
        let Turn::Ours(lock, mut file) = machine.turn() else { panic!("nobody else runs") };
        file.step("[1/2] stop etcd");
        let Turn::Taken(run) = machine.turn() else { panic!("a run holds the lock") };
        let said = describe(&run);
        assert!(said.starts_with(&format!("`etcd-lun apply` runs already (process {})", std::process::id())));
        assert!(said.ends_with(" s, at the step [1/2] stop etcd"), "{said}");
        file.step("[2/2] start etcd");
        file.line("      runs\u{1b}[2J\r (0.1 s)");
        file.end(result(3, "refused: why"));
        let mut lines = Vec::new();
        let end = to_the_end(&machine.1, *run, &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines, ["[2/2] start etcd", "      runs[2J (0.1 s)"]);
        assert_eq!(end.result, Some(result(3, "refused: why")));
        drop(lock);
        // The file of a run that has ended keeps nobody from beginning.
        assert!(matches!(machine.turn(), Turn::Ours(..)));
    }

    /// What was seen half before and half after the end of a run is of no moment.
    #[test]
    fn a_look_is_repeated_if_a_run_has_ended_meanwhile() {
        let machine = Machine::new("settled");
        let looks = std::cell::Cell::new(0);
        let look = || looks.replace(looks.get() + 1);
        assert!(matches!(settled(&machine.1, look), (0, None)));
        let Turn::Ours(lock, mut file) = machine.turn() else { panic!("nobody else runs") };
        file.step("[1/2] stop etcd");
        let (seen, run) = settled(&machine.1, look);
        let said = under_way(&run.unwrap());
        assert!(seen == 1 && said.ends_with(" s: `etcd-lun apply`, [1/2] stop etcd"), "{said}");
        let lock = std::cell::RefCell::new(Some(lock));
        let ends = || {
            lock.take();
            look()
        };
        assert!(matches!(settled(&machine.1, ends), (3, None)));
    }

    /// Half a minute after the last word of it, the journal, `status` and those who follow the run are told how far it is.
    #[test]
    fn a_long_copy_says_how_far_it_is() {
        let machine = Machine::new("long");
        let Turn::Ours(_lock, file) = machine.turn() else { panic!("nobody else runs") };
        let mut progress = Progress::new().followed_in(file);
        progress.title = "[2/9] copy".into();
        let kept = Kept::default();
        let writer = kept.clone();
        tracing::subscriber::with_default(registry().with(lines(move || writer.clone(), true)), || {
            for (seconds, done) in [(29, 512), (31, 1024), (0, 2048)] {
                progress.reported = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
                progress.moved(done, Some(4096));
            }
        });
        assert_eq!(kept.text(), " INFO [2/9] copy: 1KiB of 4KiB, 25 %\n");
        let said = under_way(&at_work(&machine.1).unwrap());
        assert!(said.ends_with(" s: `etcd-lun apply`, [2/9] copy: 1KiB of 4KiB, 25 %"), "{said}");
        let Turn::Taken(run) = machine.turn() else { panic!("a run holds the lock") };
        assert_eq!(run.lines, ["[2/9] copy: 1KiB of 4KiB, 25 %"]);
    }

    #[test]
    fn not_followed_on_request() {
        let machine = Machine::new("no-follow");
        let Turn::Ours(_lock, _file) = machine.turn() else { panic!("nobody else runs") };
        let Turn::Taken(other) = machine.turn() else { panic!("a run holds the lock") };
        let exit = run(&machine.1, "rollback", *other, false).unwrap_err();
        let line = exit.line().unwrap();
        assert!(exit.code() == 1 && line.contains("runs already") && line.contains("--no-follow"), "{line}");
    }

    #[test]
    fn a_killed_run_has_no_result() {
        let machine = Machine::new("killed");
        let Turn::Ours(lock, file) = machine.turn() else { panic!("nobody else runs") };
        let Turn::Taken(run) = machine.turn() else { panic!("a run holds the lock") };
        drop((lock, file));
        let end = to_the_end(&machine.1, *run, &mut |_| {}).unwrap();
        assert_eq!(end.result, None);
        let line = was_killed(&end).to_string();
        assert!(line.contains("was killed before its end") && line.contains("`etcd-lun apply`"), "{line}");
        // What it left is not taken for a run.
        assert!(matches!(machine.turn(), Turn::Ours(..)));
    }

    #[test]
    fn another_run_and_a_lost_file() {
        let machine = Machine::new("other");
        let Turn::Ours(lock, _file) = machine.turn() else { panic!("nobody else runs") };
        let Turn::Taken(first) = machine.turn() else { panic!("a run holds the lock") };
        let text = std::fs::read_to_string(machine.0.join("run/etcd-lun/run")).unwrap();
        machine.put(&text.replace("\"pid\":", "\"pid\":1"));
        let said = machine.follow(*first.clone());
        assert!(said.contains("another one has begun"), "{said}");
        for (text, why) in [
            ("garbage", ""),
            ("", ""),
            ("{\"version\":2,\"verb\":7}", "its version is 2"),
            ("{\"version\":1}", "verb"),
            (&text.replace("\"lines\"", "\"line\""), "`line`"),
        ] {
            machine.put(text);
            let said = machine.follow(*first.clone());
            assert!(said.contains("cannot be followed any more") && said.contains(why), "{text}: {said}");
        }
        // Who comes now waits a moment for a file that can be read, and then says why it is none.
        let said = alone::turn(&door(&machine.1), "apply").unwrap_err().to_string();
        assert!(said.contains("cannot be read from /run/etcd-lun/run ("), "{said}");
        std::fs::remove_file(machine.0.join("run/etcd-lun/run")).unwrap();
        assert!(machine.follow(*first).contains("it is gone"));
        drop(lock);
    }

    #[test]
    fn what_counts_as_the_same_request() {
        assert!(does("apply", "apply") && does("apply --boot", "apply"));
        assert!(!does("rollback", "apply") && !does("apply", "rollback") && !does("", "apply"));
    }

    #[test]
    fn ages() {
        assert_eq!([age(7), age(61), age(3660)], ["7 s", "1 min 1 s", "1 h 1 min"]);
    }
}
