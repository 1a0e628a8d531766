//! `man` writes pages that man(1) can show.

use crate::{Dir, run};
use std::{fs, process::Command};

#[test]
fn man_writes_a_page_for_each_command() {
    let dir = Dir::new("man");
    let into = dir.0.join("new/man8");
    let (code, out, err) = run(&["man", into.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let page = fs::read_to_string(into.join("etcd-lun-render-units.8")).unwrap();
    assert!(page.contains("etcd\\-lun render units"), "{page}");
    assert_eq!(out.lines().count(), fs::read_dir(&into).unwrap().count(), "{out}");
    let Ok(found) = Command::new("groff").arg("--version").output() else {
        eprintln!("groff: not run: it is not installed");
        return;
    };
    assert!(found.status.success());
    for page in fs::read_dir(&into).unwrap() {
        let page = page.unwrap().path();
        let output = Command::new("groff").args(["-man", "-ww", "-z"]).arg(&page).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{}: {said}", page.display());
    }
}
