//! Checks that the docs agree with the program's messages, with each other, and with their pictures' texts.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use cli::{Entry, entries};
use std::{collections::BTreeSet, fs, path::Path, process::Command};
use terms::ErrorName;

fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The name and the message of each refusal. `…` stands for each inserted value.
fn refusals() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent/plan/src/refusal")).unwrap() {
        let path = file.unwrap().path();
        if path.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let own = text.split("#[error(").skip(1).filter(|part| !part.starts_with("transparent"));
        found.extend(own.map(|part| (variant(part), message(part).unwrap())));
    }
    // The only refusal that no planner makes: `render` refuses an object that a cluster could not store.
    found.push(("object-too-large".into(), "MachineConfig …: this object alone would have …".into()));
    found
}

/// The name of the variant after its message, as serde writes it.
fn variant(part: &str) -> String {
    let is_name = |line: &&str| line.starts_with("    ") && line.trim().starts_with(char::is_uppercase);
    // An attribute of the variant stands before its name. Those of its fields come later.
    let attributes = part.lines().take_while(|line| !is_name(line));
    if let Some(renamed) =
        attributes.filter_map(|line| line.trim().strip_prefix("#[serde(rename = \"")).next()
    {
        return renamed.split_once('"').unwrap().0.to_owned();
    }
    let name = part.lines().find(is_name).unwrap().trim();
    let mut kebab = String::new();
    for letter in name.chars().take_while(|letter| letter.is_alphanumeric()) {
        if letter.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(letter.to_lowercase());
    }
    kebab
}

/// The entries of a page.
fn entries_of(page: &str) -> Vec<&'static Entry> {
    let found: Vec<_> = entries().iter().filter(|entry| entry.page == page).collect();
    let headings = read(page).lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(found.len(), headings, "{page}: a heading is no name");
    found
}

/// Each refusal has the entry of its name, and the entry quotes the beginning of its message. Every other entry is of an error.
#[test]
fn every_refusal_has_its_entry_in_troubleshooting() {
    let mut entries = entries_of("docs/troubleshooting.md");
    let messages = refusals();
    assert!(messages.len() > 40, "{messages:#?}");
    for (name, message) in &messages {
        let at = entries.iter().position(|entry| entry.name == name);
        let entry =
            entries.remove(at.unwrap_or_else(|| panic!("docs/troubleshooting.md lacks {name}: {message}")));
        let begins = entry.message.trim_end_matches('…').trim_end();
        assert!(message.starts_with(begins), "{name}: {message:?} does not begin with {begins:?}");
    }
    let is_error = |entry: &&Entry| ErrorName::ALL.iter().any(|name| name.as_str() == entry.name);
    let (errors, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_error);
    assert!(others.is_empty(), "docs/troubleshooting.md has what no refusal and no error is: {others:#?}");
    assert!(errors.len() > 40 && errors.iter().all(|entry| entry.message.is_empty()), "{errors:#?}");
}

/// With what an advice begins.
const ADVICE: &str = "add ask bring check choose clear compare correct delete end enter find free give grow install keep leave \
    look make map move name put read reboot release remove repair replace restart restore run see send set start stop take use wait write";

/// Nobody who reads an entry at night is left with an explanation alone: each has an imperative, and a command, a key or a page.
#[test]
fn every_entry_says_what_to_do() {
    for Entry { name, text, .. } in entries() {
        let text = text.replace(" or ", ". ").replace(" and ", ". ").replace("then ", "").to_lowercase();
        let mut clauses = text.split(|letter: char| !letter.is_alphanumeric() && !" \n'".contains(letter));
        let is_advice = |word: &str| ADVICE.split(' ').any(|verb| verb == word);
        let advises = clauses.any(|clause| clause.split_whitespace().next().is_some_and(is_advice));
        assert!(advises && (text.contains('`') || text.contains("](")), "{name}: {text}");
    }
}

/// Who copies a command from one page gets the same as from the next.
#[test]
fn a_repeated_command_has_one_text() {
    let pages: String = documents().iter().map(|page| read(page)).collect();
    let texts = pages.split("systemd-creds encrypt ").skip(1);
    let texts: Vec<_> = texts.map(|text| text.split(" /etc/credstore").next().unwrap()).collect();
    assert!(texts.len() > 2 && texts.iter().all(|text| *text == texts[0]), "{texts:#?}");
}

/// The record is lost or damaged, and the LUN whole: what a person reads then names the command, and opens no fence.
#[test]
fn a_lost_record_is_cured_by_claim() {
    let of = |page: &str, part: &str| read(page).lines().find(|line| line.contains(part)).unwrap().to_owned();
    let night = of("docs/etcd-is-down.md", "`[fenced-without-record]`, or `[unknown]`");
    let mut texts = vec![night, of("agent/hands/src/looks.rs", "{RECORD} is {error}: if this")];
    for name in ["fenced-without-record", "record-unreadable", "lun-newer"] {
        texts.extend(refusals().into_iter().filter_map(|(it, text)| (it == name).then_some(text)));
        texts.extend(entries().iter().filter(|it| it.name == name).map(|it| it.text.clone()));
    }
    for text in &texts {
        let advised = text.replace("Do not run `chattr -i` or `rm` there", "");
        assert!(advised.contains("`etcd-lun claim`") && !advised.contains("chattr"), "{text}");
    }
    assert_eq!(texts.len(), 7, "{texts:#?}");
}

/// The commands of a page's console blocks, each with all of its lines. What they print is left out.
fn typed(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for block in page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("console")) {
        let mut is_whole = true;
        for line in block.lines().map(str::trim_start) {
            match ["# ", "$ ", "desk$ "].iter().find_map(|prompt| line.strip_prefix(prompt)) {
                Some(command) => found.push(command.into()),
                None if is_whole => continue,
                None => found.last_mut().unwrap().push_str(&format!("\n{line}")),
            }
            let parsed = Command::new("bash").args(["-n", "-c", found.last().unwrap()]).output().unwrap();
            is_whole = parsed.status.success() && !line.ends_with('\\');
        }
        assert!(is_whole, "bash does not take {:?}", found.last());
    }
    found
}

/// The words of each command that runs the program, also of one that another machine gets in quotes.
fn of_ours(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let plain = text.split(['\'', '"']).enumerate().map(|(at, part)| match at % 2 {
        1 if part.contains("etcd-lun") => format!("\n{part}\n"),
        1 => part.replace(' ', "\u{1}"),
        _ => part.into(),
    });
    let mut found = Vec::new();
    for command in plain.collect::<String>().split([';', '|', '&', '(', ')', '<', '>', '\n']) {
        let words = command.split(" #").next().unwrap().split_whitespace();
        let words: Vec<_> = words.map(|word| word.replace('\u{1}', " ")).collect();
        let is_ours = |at: usize| words[at].ends_with("etcd-lun") || words[at].ends_with("etcd-lun-try");
        let is_first = |at: usize| at == 0 || ["sudo", "/host", "do", "{"].contains(&&*words[at - 1]);
        let at = (0..words.len()).find(|at| is_first(*at) && is_ours(*at));
        found.extend(at.map(|at| words[at..].to_vec()).filter(|words| words.len() > 1));
    }
    found
}

/// What a person copies from a page is whole for bash, and each command of ours is one for the program.
#[test]
fn every_command_of_a_page_is_accepted() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let mut seen = 0;
    for document in documents() {
        let page = read(&document).replace("$repository", "a.b/c").replace("GENERATION", "1");
        let page = page.replace("$digest", &digest).replace("sha256:DIGEST", &digest);
        let text = lines(&page).collect::<Vec<_>>().join(" ");
        let spans = text.split('`').skip(1).step_by(2).filter(|span| !span.contains('…'));
        let spans = spans.flat_map(of_ours).map(|words| (words, false));
        let blocks = typed(&page).into_iter().flat_map(|text| of_ours(&text)).map(|words| (words, true));
        for (words, is_whole) in blocks.chain(spans) {
            let error = cli::command().try_get_matches_from(&words).err().filter(|error| error.use_stderr());
            // A sentence may name a command without saying all of it.
            let is_wrong =
                |error: &clap::Error| is_whole || !format!("{:?}", error.kind()).contains("Missing");
            assert!(!error.is_some_and(|error| is_wrong(&error)), "{document}: {words:?}");
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
}

/// Every page that a message of the program names is there.
#[test]
fn every_page_in_a_message_is_there() {
    let pages = documents().join(" ");
    for (path, text) in support::size::rust(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent")) {
        let text = text.split("#[cfg(test)]").next().unwrap().replace("\\n", " ");
        let code = text.lines().filter(|line| !line.trim().starts_with("//"));
        let words = code.flat_map(|line| line.split(['`', '"', ' ', '(', '#', ',']));
        for page in words.filter(|word| word.ends_with(".md")) {
            assert!(pages.contains(page.trim_start_matches("../")), "{path}: {page}");
        }
    }
}

/// A name is of a refusal or of an error, so that a printed line leads to one entry.
#[test]
fn no_error_has_the_name_of_a_refusal() {
    for (name, _) in refusals() {
        assert!(ErrorName::ALL.iter().all(|error| error.as_str() != name), "{name}");
    }
}

/// Each alert has its entry, and leads to it.
#[test]
fn every_alert_has_its_entry() {
    let rules = read("packaging/monitoring/rules.yaml");
    let mut entries = entries_of("docs/alerts.md");
    for alert in rules.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap();
        let at = entries.iter().position(|entry| entry.name == name);
        let entry = entries.remove(at.unwrap_or_else(|| panic!("docs/alerts.md lacks {name}")));
        let summary = alert.lines().find_map(|line| line.trim().strip_prefix("summary: ")).unwrap();
        let mut shown = String::new();
        for (number, part) in summary.trim_matches('"').split("{{").enumerate() {
            shown.push_str(if number == 0 { "" } else { "…" });
            shown.push_str(part.split_once("}}").map_or(part, |(_, after)| after));
        }
        assert_eq!(entry.message, shown, "{name}");
        let runbook = format!("runbook_url: \"DOCS/alerts.md#{}\"", anchor(name));
        assert!(alert.contains(&runbook), "{name} has no {runbook}");
    }
    assert!(entries.is_empty(), "docs/alerts.md has what is no alert: {entries:#?}");
}

/// The text that an error's macro or function gets. `None` if it gets something else.
fn message(arguments: &str) -> Option<String> {
    let mut rest = arguments.trim_start();
    if let Some((kind, after)) = rest.split_once(',')
        && kind.chars().all(|letter| letter.is_alphanumeric() || "_:".contains(letter))
    {
        rest = after.trim_start();
    }
    // What a closure returns may stand in a block.
    rest = rest.strip_prefix('{').unwrap_or(rest).trim_start();
    rest = rest.strip_prefix("format!(").unwrap_or(rest).trim_start();
    let mut letters = rest.strip_prefix('"')?.chars().peekable();
    let (mut message, mut depth) = (String::new(), 0);
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some(message),
            '\\' => match letters.next()? {
                '\n' => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
                escaped => message.push(escaped),
            },
            '{' => {
                message.push('…');
                depth = 1;
                for letter in letters.by_ref() {
                    depth += match letter {
                        '{' => 1,
                        '}' => -1,
                        _ => 0,
                    };
                    if depth == 0 {
                        break;
                    }
                }
            }
            other => message.push(other),
        }
    }
    (depth == 0).then_some(message)
}

/// The documents for readers, as paths from the root of the checkout.
fn documents() -> Vec<String> {
    let root = format!("{}/../..", env!("CARGO_MANIFEST_DIR"));
    let of_tests = ["", "nodes/", "measure/"].map(|dir| format!("tests/{dir}README.md"));
    let mut found = Vec::from(of_tests);
    found.push("packaging/monitoring/README.md".into());
    for dir in ["", "docs/", "docs/design/"] {
        for entry in fs::read_dir(format!("{root}/{dir}")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                found.push(format!("{dir}{name}"));
            }
        }
    }
    found
}

/// The anchor that Markdown gives a heading, as GitHub and GitLab make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
}

/// The lines of a page that are not in a block of code.
fn lines(page: &str) -> impl Iterator<Item = &str> {
    page.split("```").step_by(2).flat_map(str::lines)
}

/// The anchors of a page. A heading that comes twice gets a number, as GitHub and mdBook give it.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in lines(page).filter(|line| line.starts_with('#')) {
        let name = anchor(line.trim_start_matches('#'));
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

/// The target of each link and each picture in a text, without those to other sites.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// The path from the root of the checkout to what a document's link leads to.
fn target(document: &str, link: &str) -> String {
    let file = link.split('#').next().unwrap();
    if file.is_empty() {
        return document.to_owned();
    }
    let mut parts: Vec<_> = document.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let root = format!("{}/../..", env!("CARGO_MANIFEST_DIR"));
    let (mut dead, mut followed) = (Vec::new(), 0);
    for document in documents() {
        for link in links(&read(&document)) {
            followed += 1;
            let wanted = link.split_once('#').map(|(_, anchor)| anchor);
            let page = fs::read_to_string(format!("{root}/{}", target(&document, &link)));
            if !page.is_ok_and(|page| wanted.is_none_or(|wanted| anchors(&page).contains(wanted))) {
                dead.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(followed > 100, "{followed}");
    assert!(dead.is_empty(), "links that lead nowhere: {dead:#?}");
}

/// A site made with mdBook has every page.
#[test]
fn every_page_is_in_the_summary() {
    let summary = "docs/SUMMARY.md";
    let listed: BTreeSet<_> = links(&read(summary)).iter().map(|link| target(summary, link)).collect();
    let pages: BTreeSet<_> = documents().into_iter().filter(|page| page != summary).collect();
    assert_eq!(listed, pages, "{summary} differs from the pages that are there");
}

/// Words that send a reader back to look for what they mean.
const RIDDLES: [&str; 14] = [
    ". Whose ",
    ". Whom ",
    ". The same holds",
    ". The same is ",
    ". The same for ",
    ". The same as ",
    ". The same. ",
    " what comes of ",
    " by one that ",
    " taken for ",
    " hangs on ",
    " can't be told",
    " the kernel's word",
    " manners ",
];

/// Who must not be "had" do something: "the rule has systemd start it" is "systemd starts it, because of the rule".
const ACTORS: [&str; 9] =
    ["apply", "etcd", "etcd-lun", "iscsid", "kubelet", "multipathd", "operator", "systemd", "udev"];
const VERBS: [&str; 11] =
    ["ask", "delete", "make", "mount", "read", "refuse", "run", "start", "stop", "wait", "write"];

/// A text as sentences, each of which follows ". ", without code, marks and line breaks.
fn sentences(text: &str) -> String {
    let mut found = String::from(". ");
    for line in lines(text) {
        let bare = line.trim_start_matches(['#', '/', '>', ' ']);
        let item = bare.strip_prefix("- ").or_else(|| bare.strip_prefix("| "));
        if item.is_some() || bare.is_empty() {
            found += ". ";
        }
        found += &item.unwrap_or(bare).replace(" | ", ". ").replace(['`', '*'], "");
        found.push(' ');
    }
    found.split_whitespace().fold(String::new(), |text, word| text + word + " ")
}

#[test]
fn no_page_and_no_unit_speaks_in_riddles() {
    let units = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../units")).unwrap();
    let units = units.map(|unit| format!("units/{}", unit.unwrap().file_name().into_string().unwrap()));
    let had = ["have", "has"].iter().flat_map(|had| ACTORS.map(|actor| format!(" {had} {actor} ")));
    let had: Vec<_> = had.flat_map(|begin| VERBS.map(|verb| format!("{begin}{verb} "))).collect();
    let mut seen = Vec::new();
    for document in documents().into_iter().chain(units.filter(|unit| unit != "units/example")) {
        let text = sentences(&read(&document));
        let riddles = RIDDLES.into_iter().chain(had.iter().map(String::as_str));
        seen.extend(riddles.filter(|it| text.contains(it)).map(|it| format!("{document}: {it:?}")));
    }
    assert!(seen.is_empty(), "{seen:#?}");
}

/// A page that is one screen long, in lines that fit.
#[test]
fn the_readme_is_short_and_its_config_is_right() {
    let page = read("README.md");
    assert!(page.lines().count() <= 100, "{}", page.lines().count());
    let long: Vec<_> = page.lines().filter(|line| line.chars().count() > 120).collect();
    assert!(long.is_empty(), "{long:#?}");
    let config = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let source = config::Source { path: "README.md".into(), text: config.into() };
    config::Config::load(&[source], "0123456789abcdef0123456789abcdef", "master-0").unwrap();
    for command in ["tests/demo", "tests/all"] {
        assert!(page.contains(&format!("# {command} ")), "{command}");
    }
}

/// A page for 3 a.m. is one screen, and is the first one that README leads to.
#[test]
fn the_first_page_is_short_and_comes_first() {
    let page = read("docs/etcd-is-down.md");
    assert!(page.lines().count() <= 40, "{}", page.lines().count());
    assert_eq!(links(&read("README.md"))[0], "docs/etcd-is-down.md");
    // The names on it are those that the program prints.
    let names: Vec<_> = page.split('[').skip(1).filter_map(|rest| rest.split_once(']')).collect();
    let names = names.iter().filter(|(name, after)| !after.starts_with('(') && *name != "…");
    let mut seen = 0;
    for (name, _) in names {
        assert!(entries().iter().any(|entry| entry.name == *name), "{name}");
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn every_picture_is_made_from_its_text() {
    let mut seen = 0;
    for entry in fs::read_dir(format!("{}/../../docs/pictures", env!("CARGO_MANIFEST_DIR"))).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".dot") else { continue };
        seen += 1;
        let picture = read(&format!("docs/pictures/{stem}.svg"));
        // XML does not allow two hyphens in a comment.
        let text = read(&format!("docs/pictures/{name}")).replace("--", "- -");
        assert!(
            picture.contains(&format!("<!-- made from {name}:\n{text}-->")),
            "docs/pictures/{stem}.svg is not made from {name} as it is now: run docs/pictures/make"
        );
    }
    assert!(seen >= 4, "{seen}");
}

/// It shows what the page shows, which a run on a node has written.
#[test]
fn the_picture_of_a_terminal_is_of_the_tour() {
    let (picture, tour) = (read("docs/pictures/terminal.svg").replace("&lt;", "<"), read("docs/tour.md"));
    let shown: Vec<_> = picture.split("</text>").filter_map(|text| text.rsplit_once("\">")).collect();
    assert!(shown.len() > 25, "{shown:#?}");
    for (_, line) in shown {
        let is_there = |it: &str| line.strip_suffix('…').map_or(it == line, |begins| it.starts_with(begins));
        assert!(
            tour.lines().any(is_there),
            "the tour has no {line:?}: docs/pictures/terminal makes the picture"
        );
    }
}

/// The pages' commands that bring a secret, with functions that keep what they get. Without a secret each one says so.
#[test]
fn what_brings_a_secret_fails_without_one() {
    let dir = std::env::temp_dir().join(format!("etcd-lun-docs-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let command = |page: &str, with: &str| {
        let found = typed(&read(page)).into_iter().find(|it| it.starts_with(with) && it.contains("secret"));
        found.unwrap().replace("/etc/credstore", "credstore")
    };
    let run = |command: &str, secret: Option<&str>| {
        let _ = (fs::remove_file(dir.join("got")), fs::remove_file(dir.join("chap.secret")));
        secret.into_iter().for_each(|secret| fs::write(dir.join("chap.secret"), secret).unwrap());
        let keep = "ssh() { cat >>got; }; systemd-creds() { cat >>got; }";
        let script = format!("{keep}; echo {} | {{ {command}\n}}", secret.unwrap_or_default());
        let ran = Command::new("bash").args(["-c", &script]).current_dir(&dir).output();
        let got = fs::read_to_string(dir.join("got")).unwrap_or_default();
        (got, String::from_utf8(ran.unwrap().stdout).unwrap().matches("FAILED").count())
    };
    for (page, with, times) in [
        ("docs/rollout.md", "for node in", 3),
        ("docs/one-node.md", "test -s chap.secret", 1),
        ("docs/troubleshooting.md", "read -rs secret", 1),
    ] {
        let command = command(page, with);
        assert_eq!(run(&command, Some("word")), ("word".repeat(times), 0), "{command}");
        for nothing in [None, Some("")] {
            assert_eq!(run(&command, nothing), (String::new(), times), "{command}");
        }
    }
    let record = "/var/lib/iscsi/nodes/iqn.2024-02.com.example:bench/192.168.10.5,3260,1/default";
    let command = command("docs/bench.md", "printf 'node.session").replace(record, "got");
    let lines = ["authmethod = CHAP", "username = initiator1", "password = word"];
    let expected = lines.map(|line| format!("node.session.auth.{line}\n")).concat();
    assert_eq!(run(&command, Some("word")).0, expected, "{command}");
    fs::remove_dir_all(&dir).unwrap();
}

/// What reads a pipe ends with 0 although what writes into it has left files out.
#[test]
fn a_backup_that_is_not_brought_is_a_failure() {
    let page = read("docs/rollout.md");
    let line = page.lines().find(|line| line.contains("sudo tar")).unwrap().trim_start_matches("$ ");
    let line = line.replace(">backup.tar", ">/dev/null");
    let failing = format!("ssh() {{ tar --create --files-from /dev/null; false; }}; {line}");
    assert!(!Command::new("bash").args(["-c", &failing]).status().unwrap().success());
}
