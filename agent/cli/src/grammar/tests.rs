#![allow(clippy::unwrap_used)]

use super::*;

fn asked(line: &str) -> Result<Parsed, Mistake> {
    parse(line.split_whitespace().map(OsString::from))
}

fn verb(line: &str) -> CommandLine {
    match asked(line) {
        Ok(Parsed::CommandLine { line, .. }) => *line,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_grammar_has_no_contradiction() {
    command().debug_assert();
}

/// As the units call the program, and as people have typed it since the first version.
#[test]
fn options_stand_before_or_after_the_words() {
    for line in [
        "--config a render target --backstore-dir=/x",
        "render target --backstore-dir /x --config=a",
        "render --config a target --backstore-dir /x",
    ] {
        let parsed = verb(line);
        assert_eq!(parsed.config, Some("a".into()), "{line}");
        assert!(matches!(parsed.verb, Verb::Render(Render::Target(_))), "{line}");
    }
    assert!(matches!(verb("apply --boot").verb, Verb::Apply(options) if options.boot));
    assert!(matches!(verb("health --record").verb, Verb::Health(_)));
    assert!(matches!(verb("selinux install").verb, Verb::Selinux(Selinux::Install)));
    assert!(matches!(verb("mark").verb, Verb::Mark));
    assert!(matches!(verb("let-go").verb, Verb::LetGo));
    for (line, asked_for) in [("bench --json -- /x", true), ("bench /x", false)] {
        assert!(matches!(asked(line), Ok(Parsed::CommandLine { json, .. }) if json == asked_for), "{line}");
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    for (line, changes) in [
        ("apply", true),
        ("apply --boot", true),
        ("apply --dry-run", false),
        ("rollback", true),
        ("rollback --dry-run", false),
        ("claim --dry-run --json", false),
        ("plan", false),
        ("status", false),
    ] {
        assert_eq!(verb(line).verb.is_run(), changes, "{line}");
    }
}

#[test]
fn wrong_lines_say_what_and_how() {
    for (line, said) in [
        ("", ""),
        ("destroy", "destroy"),
        ("render", "a command is missing"),
        ("check", "the command is `etcd-lun config check`"),
        ("plan —json", "type two hyphens, as in --json"),
        ("config check a.toml", "name the config with an option: --config a.toml"),
        ("render all", "all"),
        ("apply now", "now"),
        ("help destroy", "destroy"),
        ("apply --force", "--force"),
        ("--json status", "--json"),
        ("plan --json --json", "--json"),
        ("--config a plan --config=b", "--config"),
        ("plan --config a --config a", "--config"),
        ("bench /a /b", "/b"),
        ("retired delete", "<GENERATION>"),
        ("render units", "--into <DIR>"),
        ("render target --backstore-block --backstore-dir /x", "--backstore-dir"),
        ("render machineconfig --program x --without-program", "--without-program"),
        ("render butane --without-program --embed", "--embed"),
        ("plan --json=yes", "yes"),
        ("plan --config", "--config <FILE>"),
        ("bench --writes x", "--writes"),
        ("bench --writes 99", "99"),
        ("bench --size 9", "9"),
        ("health --prometheus x.txt", "the name must end with .prom"),
        ("render target --backstore-dir relative", "`relative` is not an absolute path"),
        ("render butane --role Ä", "--role"),
        ("retired delete 99999999999999999999", "99999999999999999999"),
    ] {
        let Mistake { text, line: one, .. } = asked(line).unwrap_err();
        assert!(text.starts_with("error: ") && text.contains(said), "{line}: {text}");
        assert!(one.contains(said) && !one.contains('\n'), "{line}: {one}");
    }
}

/// A program reads standard output: there it finds the error too.
#[test]
fn json_is_asked_for_even_where_the_rest_is_wrong() {
    for (line, json) in
        [("apply --json --bogus", true), ("apply --bogus", false), ("bench /a /b -- --json", false)]
    {
        assert_eq!(asked(line).unwrap_err().json, json, "{line}");
    }
}

#[test]
fn help_fits_and_names_everything() {
    fn look(command: &clap::Command, words: &str) {
        let Ok(Parsed::Text(text)) = asked(&format!("{words} --help")) else { panic!("{words}") };
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let Ok(Parsed::Text(same)) = asked(&format!("help {words}")) else { panic!("{words}") };
        assert_eq!(text, same, "{words}");
        let Ok(Parsed::Text(version)) = asked(&format!("{words} --version")) else { panic!("{words}") };
        assert!(version.starts_with("etcd-lun 0."), "{version}");
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(text.contains(&format!("--{option}")), "{text}");
        }
        for below in command.get_subcommands() {
            assert!(text.contains(&format!("\n  {} ", below.get_name())), "{text}");
            look(below, &format!("{words} {}", below.get_name()));
        }
    }
    look(&command(), "");
}

/// Each verb says what it does, and each option too.
#[test]
fn everything_has_its_help() {
    fn look(command: &clap::Command) {
        let name = command.get_name();
        let about = command.get_about().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(!about.starts_with("How ") && !about.starts_with("What "), "{name}: {about}");
        for option in command.get_arguments() {
            assert!(option.get_help().is_some(), "{name}: {option:?}");
        }
        command.get_subcommands().for_each(look);
    }
    look(&command());
}
