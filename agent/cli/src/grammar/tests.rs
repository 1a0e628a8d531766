#![allow(clippy::unwrap_used)]

use super::*;

fn asked(line: &str) -> Result<Parsed, Mistake> {
    parse(line.split_whitespace().map(OsString::from))
}

fn verb(line: &str) -> CommandLine {
    match asked(line) {
        Ok(Parsed::CommandLine(parsed)) => *parsed,
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
    assert!(verb("bench --json -- /x").verb.json());
    assert!(!verb("bench /x").verb.json());
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
    for (line, said, usage) in [
        ("", "requires a subcommand", "etcd-lun [OPTIONS] <COMMAND>"),
        ("destroy", "unrecognized subcommand 'destroy'", "etcd-lun [OPTIONS] <COMMAND>"),
        ("render", "a command is missing after `etcd-lun render`", "etcd-lun render [OPTIONS] <COMMAND>"),
        ("check", "the command is `etcd-lun config check`", "etcd-lun [OPTIONS] <COMMAND>"),
        ("plan —json", "type two hyphens, as in --json", "etcd-lun plan"),
        ("config check a.toml", "name the config with an option: --config a.toml", "etcd-lun config check"),
        ("render all", "unrecognized subcommand 'all'", "etcd-lun render [OPTIONS] <COMMAND>"),
        ("apply now", "unexpected argument 'now'", "etcd-lun apply"),
        ("help destroy", "unrecognized subcommand 'destroy'", "etcd-lun"),
        ("aply", "a similar subcommand exists: 'apply'", "etcd-lun"),
        ("render butan", "a similar subcommand exists: 'butane'", "etcd-lun render"),
        ("plan --jsn", "a similar argument exists: '--json'", "etcd-lun plan"),
        ("apply --force", "unexpected argument '--force'", "etcd-lun apply"),
        ("apply -f", "unexpected argument '-f'", "etcd-lun apply"),
        ("--json status", "unexpected argument '--json'", "etcd-lun"),
        ("plan --json --json", "cannot be used multiple times", "etcd-lun plan"),
        ("--config a plan --config=b", "'--config <FILE>' cannot be used multiple times", "etcd-lun"),
        ("plan --config a --config a", "'--config <FILE>' cannot be used multiple times", "etcd-lun"),
        ("bench /a /b", "unexpected argument '/b'", "etcd-lun bench"),
        ("retired delete", "<GENERATION>", "etcd-lun retired delete"),
        ("render units", "--into <DIR>", "etcd-lun render units"),
        (
            "render target --backstore-block --backstore-dir /x",
            "'--backstore-block' cannot be used with '--backstore-dir <DIR>'",
            "etcd-lun render target",
        ),
        (
            "render machineconfig --program x --without-program",
            "cannot be used with",
            "etcd-lun render machineconfig",
        ),
        ("render butane --without-program --embed", "cannot be used with", "etcd-lun render butane"),
    ] {
        let Mistake { text, line: one, .. } = asked(line).unwrap_err();
        assert!(text.starts_with("error: ") && text.contains(said), "{line}: {text}");
        assert!(text.contains(&format!("Usage: {usage}")), "{line}: {text}");
        assert!(one.contains(said) && !one.contains('\n') && !one.contains("Usage"), "{line}: {one}");
    }
    for (line, said) in [
        ("plan --json=yes", "unexpected value 'yes' for '--json'"),
        ("plan --config", "--config <FILE>"),
        ("bench --writes x", "'--writes <COUNT>'"),
        ("bench --writes 99", "99 is not in 100..=8000"),
        ("bench --size 9", "[possible values: 8000, 2300]"),
        ("health --prometheus x.txt", "the name must end with .prom"),
        ("render target --kind nfs", "[possible values: lio, targetd]"),
        ("render target --backstore-dir relative", "`relative` is not an absolute path"),
        ("render butane --role Ä", "'--role <ROLE>'"),
        ("retired delete 99999999999999999999", "'99999999999999999999' for '<GENERATION>'"),
    ] {
        let text = asked(line).unwrap_err().text;
        assert!(text.contains(said), "{line}: {text}");
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
