//! Finds circles of files that use each other: for each edge the shortest circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Every shortest circle: each edge that lies on one, closed by the shortest way back. A circle begins with its first
/// file by name, and is listed once.
pub fn circles<'a>(edges: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Vec<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let mut found = BTreeSet::new();
    for (from, targets) in &next {
        for to in targets {
            let Some(mut circle) = way(&next, to, from) else { continue };
            let first = (0..circle.len()).min_by_key(|&at| circle[at]).unwrap_or_default();
            circle.rotate_left(first);
            found.insert(circle.into_iter().map(str::to_owned).collect::<Vec<_>>());
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(Vec::len);
    found
}

/// The shortest way from one file to another, with both of them.
fn way<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from = BTreeMap::from([(from, from)]);
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let mut way = vec![to];
            while way[way.len() - 1] != from {
                way.push(came_from[way[way.len() - 1]]);
            }
            way.reverse();
            return Some(way);
        }
        for &target in next.get(at).into_iter().flatten() {
            if !came_from.contains_key(target) {
                came_from.insert(target, at);
                queue.push_back(target);
            }
        }
    }
    None
}

#[test]
fn a_circle_is_found_and_a_tree_has_none() {
    assert_eq!(circles([("a", "b"), ("a", "c"), ("b", "c")]), Vec::<Vec<String>>::new());
    assert_eq!(circles([("b", "a"), ("a", "b")]), [["a", "b"]]);
    let both = circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "c"), ("d", "e")]);
    assert_eq!(both, [vec!["c", "d"], vec!["a", "b", "c"]]);
}
