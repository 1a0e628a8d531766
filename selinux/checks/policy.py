"""A linked policy, loaded once and indexed, to answer what a domain may do."""

import collections
import hashlib
import pathlib

import setools


class Policy:
    """A binary policy."""

    def __init__(self, path):
        self.hash = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:12]
        policy = setools.SELinuxPolicy(str(path))
        self.attributes = {str(one): {str(type_) for type_ in one.expand()} for one in policy.typeattributes()}
        self.names, self.permissive = {}, set()
        for type_ in policy.types():
            for name in [type_, *type_.aliases()]:
                self.names[str(name)] = str(type_)
            if type_.ispermissive:
                self.permissive.add(str(type_))
        self._of = collections.defaultdict(set)
        for attribute, types in self.attributes.items():
            for type_ in types:
                self._of[type_].add(attribute)
        self.rules, self.allows = collections.defaultdict(set), collections.Counter()
        self.transitions, self.ioctls = set(), collections.defaultdict(set)
        for rule in policy.terules():
            kind = str(rule.ruletype)
            key = (str(rule.source), str(rule.target), str(rule.tclass))
            self.allows[key[0]] += kind == "allow"
            # Rules that depend on a boolean count too, because the module does not decide who may set booleans.
            if kind == "allow":
                self.rules[key] |= {str(one) for one in rule.perms}
            elif kind == "allowxperm":
                self.ioctls[key] |= {int(one) for one in rule.perms}
            elif kind == "type_transition":
                self.transitions.add((*key, named(rule), str(rule.default)))
        self.booleans = {str(one) for one in policy.bools()}
        self.roles = {(str(role), str(type_)) for role in policy.roles() for type_ in role.types()}

    def real(self, name):
        """The type that a name or an alias means; None if this policy lacks the name."""
        return self.names.get(name)

    def all_of(self, name):
        """A type and its attributes."""
        return {name} | self._of[name]

    def may(self, source, target, class_):
        """Every permission of one type on another."""
        source, target = self.names[source], self.names[target]
        found = set()
        for one in self.all_of(source):
            for other in self.all_of(target):
                found |= self.rules.get((one, other, class_), set())
        return found

    def targets(self, source, class_, permissions):
        """The types on which `source` has one of these permissions."""
        sources, found = self.all_of(self.names[source]), set()
        for (one, target, of), perms in self.rules.items():
            if one in sources and of == class_ and perms & permissions:
                found |= self.attributes.get(target, {target})
        return found

    def ioctl(self, source, class_):
        """The types on which `source` has ioctl(2), each with the numbers that it is limited to; None where there is no
        limit."""
        sources, limits = self.all_of(self.names[source]), {}
        for (one, target, of), numbers in self.ioctls.items():
            if one in sources and of == class_:
                for type_ in self.attributes.get(target, {target}):
                    limits.setdefault(type_, set()).update(numbers)
        return {type_: limits.get(type_) for type_ in self.targets(source, class_, {"ioctl"})}

    def sources(self, target, class_, permissions):
        """The types that have one of these permissions on `target`."""
        targets, found = self.all_of(self.names[target]), set()
        for (source, one, of), perms in self.rules.items():
            if one in targets and of == class_ and perms & permissions:
                found |= self.attributes.get(source, {source})
        return found

    def without(self, own):
        """Everything that the policy says about types other than these, for a comparison."""
        said = {
            ("allow", *key, one) for key, perms in self.rules.items() if not {key[0], key[1]} & own for one in perms
        }
        said |= {("ioctl", *key) for key in self.ioctls if not {key[0], key[1]} & own}
        said |= {("transition", *one) for one in self.transitions if not {one[0], one[1], one[4]} & own}
        for attribute, types in self.attributes.items():
            if attribute not in own:
                said |= {("attribute", attribute, one) for one in types - own}
        said |= {("permissive", one) for one in self.permissive - own}
        said |= {("role", role, type_) for role, type_ in self.roles if type_ not in own}
        return said | {("boolean", one) for one in self.booleans}


def named(rule):
    """The file name of a type transition, if it has one."""
    try:
        return rule.filename
    except (AttributeError, setools.exception.TERuleNoFilename, setools.exception.RuleUseError):
        return None
