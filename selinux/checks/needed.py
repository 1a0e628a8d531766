"""Finds the blocks of the module that are needed, from the accesses that their rules granted on a running node.

A block is needed if it granted an access that no other block of the module and no rule of the system's policy grants. The
accesses come from the audit log of a node with `auditallow` for each rule of the module. Such a node does not have
everything, for example another distribution's policy or multipathd. Blocks for those are needed if `needs` lists them.
"""

import collections

from checks import module, needs
from checks.policy import Policy

# Targets of rules that are not audited, because an audit would log every check of every process (the test bed's
# `grants.rs`).
LOUD = {"domain", "etcd_lun_anything"}

Access = collections.namedtuple("Access", "source target class_ permission")
Rule = collections.namedtuple("Rule", "source target class_ permissions")


def granted(lines):
    """The granted accesses. A line is `PERMISSION SOURCE TARGET CLASS`, as the test bed writes it."""
    found = set()
    for line in lines:
        permission, source, target, class_ = line.split()
        found.add(Access(source, target, class_, permission))
    return found


def blocks(text):
    """The blocks that hold rules, by name, with their rules. A rule outside `optional` is a block of its own."""
    forms = module.forms(text)
    sets = collections.defaultdict(list)
    for form in forms:
        if form[0] == "classmapping":
            sets[form[1], form[2]].append(form[3])
        elif form[0] == "classpermissionset":
            sets[form[1]].append(form[2])
    found = {}
    for form in forms:
        allows = [one for one in form if one[0] == "allow"] if form[0] == "optional" else [form]
        rules = [
            Rule(allow[1], allow[2], class_, set(permissions))
            for allow in allows
            if allow[0] == "allow"
            for class_, permissions in classes(allow[3], sets)
        ]
        if rules:
            found[form[1] if form[0] == "optional" else written(form)] = rules
    return found


def classes(what, sets):
    """The classes and permissions that the last part of a rule means."""
    if isinstance(what, str):
        return sets[what]
    if any((what[0], name) in sets for name in what[1]):
        return [one for name in what[1] for one in sets[what[0], name]]
    return [what]


def without_rules(text):
    """The module with its types, attributes and labels, but without its rules."""
    kept = []
    for form in module.forms(text):
        if form[0] == "optional":
            form = [one for one in form if one[0] != "allow"]
            if len(form) == 2:
                continue
        if form[0] != "allow":
            kept.append(form)
    return "\n".join(written(form) for form in kept)


def written(form):
    """A form as text."""
    return form if isinstance(form, str) else f"({' '.join(written(one) for one in form)})"


def verdicts(whole, base, text, seen):
    """Yields for each block whether it is needed, and a line of output. None instead: this policy does not use the block.

    `whole` is the policy with the module. `base` is the policy with the module's types and none of its rules.
    """
    own = {form[1]: form[2] for form in module.forms(text) if form[0] == "typeattributeset"}

    def types(name):
        """The types that a name means; none if the policy lacks the name."""
        if own.get(name) == ["all"]:
            return set(whole.names.values())
        real = whole.real(name)
        return {real} if real else whole.attributes.get(name, set())

    named = {name: [(types(rule.source), rule, types(rule.target)) for rule in rules] for name, rules in blocks(text).items()}

    def granting(access):
        """The blocks whose rules grant this access, and the positions of those rules."""
        source, target = whole.real(access.source), whole.real(access.target)
        for name, rules in named.items():
            for at, (sources, rule, targets) in enumerate(rules):
                meant = target in targets if rule.target != "self" else source == target
                if source in sources and meant and access.class_ == rule.class_ and access.permission in rule.permissions:
                    yield name, at

    def lost(accesses):
        """For each block the accesses that only this block grants."""
        found = collections.defaultdict(set)
        for access in accesses:
            names = {name for name, _ in granting(access)}
            if len(names) == 1 and access.permission not in base.may(access.source, access.target, access.class_):
                found[names.pop()].add(access)
        return found

    used = collections.defaultdict(set)
    for access in seen:
        for place in granting(access):
            used[place].add(access.permission)
    asked = {
        Access(source, target, class_, permission): why
        for why, source, target, class_, permissions in needs.NEEDS
        if whole.real(source) and whole.real(target)
        for permission in permissions.split()
    }
    by_use, by_need = lost(seen), lost(asked)
    for name, rules in named.items():
        if any(not sources or not (targets or rule.target == "self") for sources, rule, targets in rules):
            yield None, f"{name}: this policy lacks a name in it"
        elif any(rule.target in LOUD for _, rule, _ in rules):
            yield None, f"{name}: not audited; the test bed shows what fails without it"
        elif by_use[name]:
            one = min(by_use[name])
            yield True, f"{name}: {len(by_use[name])} accesses need it, for example {one.permission} {one.class_} {one.target}"
        elif by_need[name]:
            yield True, f"{name}: not used on that node, but in the list of needs: {asked[min(by_need[name])]}"
        elif all(rule.permissions <= base.may(one, other, rule.class_) for sources, rule, targets in rules for one in sources for other in targets):
            yield None, f"{name}: this policy grants it without the module"
        else:
            yield False, f"{name}: no access needs it"
        for at, (_, rule, _) in enumerate(rules):
            idle = rule.permissions - used[name, at]
            if by_use[name] and idle:
                yield None, f"    never used: {rule.source} {rule.target} {rule.class_} {{ {' '.join(sorted(idle))} }}"


def check(store, link, text, lines):
    """Links the two policies and yields the verdicts."""
    seen = granted(lines)
    base = Policy(link(store, without_rules(text)))
    return verdicts(Policy(link(store, text)), base, text, seen)
