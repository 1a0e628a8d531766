"""Counts the allow rules of our domain, beside domains of the system. docs/design/ways.md has the table."""

# iscsid, mkfs.xfs and blkid, and mount(8) run in these, if their labels decide.
DOMAINS = ["etcd_lun_t", "etcd_lun_hands_t", "iscsid_t", "fsadm_t", "mount_t"]

HEAD = ["policy", "hash", *(f"`{domain}`" for domain in DOMAINS)]


def page(name, policy, base):
    """The table with the line of this policy, in Markdown."""
    return f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|\n| {name} {line(policy, base)}\n"


def line(policy, base):
    """The line without the policy's name: the hash of the policy without the module, and the numbers with the module."""
    return f"| `{base.hash}` | {' | '.join(numbers(policy, domain) for domain in DOMAINS)} |"


def numbers(policy, name):
    """The rules whose source is the domain, `+` the rules whose source is an attribute of the domain.

    Counted are the allow rules of the binary policy, also those that depend on a boolean. All permissions on one class of
    one target are one rule. So are all targets with a common attribute, if the rule names the attribute.
    """
    domain = policy.real(name)
    if not domain:
        return "not in this policy"
    attributes = policy.all_of(domain) - {domain}
    free = ", unconfined" if "unconfined_domain_type" in attributes else ""
    return f"{policy.allows[domain]} + {sum(policy.allows[one] for one in attributes)}{free}"


def said(document, policy, base):
    """Whether the document has these numbers; None if it has no line for this policy."""
    return line(policy, base) in document if f"| `{base.hash}` |" in document else None
