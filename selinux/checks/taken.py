"""Links the module into a small policy, from which one name after the other is taken out.

An update of the system's policy may lose a type, an attribute or a permission. If the module did not link then, ostree would drop
the update of the node. The small policy has what the module names and nothing else, so a link takes milliseconds. libsepol links
in memory, as it does for semodule.
"""

import ctypes

from . import module

# What a policy has beside types, attributes and permissions.
BASE = """(handleunknown allow) (mls true) (sensitivity s0) (sensitivityorder (s0)) (category c0) (categoryorder (c0))
(sensitivitycategory s0 (c0)) (user system_u) (role object_r) (role system_r) (userrole system_u object_r)
(userlevel system_u (s0)) (userrange system_u ((s0) (s0))) (type small_t) (roletype object_r small_t)
(sid kernel) (sidorder (kernel)) (sidcontext kernel (system_u object_r small_t ((s0) (s0))))
"""
# Classes for which the module has rules outside `optional`. Every policy since RHEL 8 has their permissions. Without such a rule
# the service could not bring etcd up, so a node had better keep its old system.
BASIC = set(
    "blk_file capability chr_file dir fd fifo_file file filesystem lnk_file netlink_kobject_uevent_socket netlink_route_socket process"
    " service sock_file tcp_socket udp_socket unix_dgram_socket unix_stream_socket".split()
)


def named(text):
    """What the module names of the system's policy: (`type`, name), (`typeattribute`, name), and (class, permission)."""
    own, types, attributes, found = module.own(text) | {"self"}, set(), set(), set()
    sets = {form[1] for form in module.forms(text) if form[0] in ("classmap", "classpermission")}
    for form in (one for form in module.forms(text) for one in (form[2:] if form[0] == "optional" else [form])):
        kind, what = form[0], form[-1]
        if kind == "typeattributeset":
            attributes.add(form[1])
        elif kind in ("allow", "dontaudit", "allowx"):
            types |= {form[1], form[2]}
        elif kind == "typetransition":
            types |= {form[1], form[2], form[-1]}
        if kind == "allowx":
            found.add((what[1], "ioctl"))
        elif isinstance(what, list) and what[0] not in sets and kind in ("allow", "dontaudit", "classmapping", "classpermissionset"):
            found |= {(what[0], one) for one in what[1]}
    found |= {("typeattribute", one) for one in attributes - own}
    return found | {("type", one) for one in types - attributes - own}


def needed(text):
    """The names without which the module does not link; `nothing` if it does not link with all of them."""
    every = named(text)
    alone = {one for one in every if one[0] not in BASIC}
    return [" ".join(gone or ["nothing"]) for gone in [None, *sorted(alone)] if not links(policy(every - {gone}), text)]


def policy(names):
    """The small policy with these names, in CIL."""
    classes = {kind: [name for of, name in sorted(names) if of == kind] for kind, _ in names if not kind.startswith("type")}
    lines = [f"({kind} {name})" for kind, name in sorted(names) if kind not in classes]
    lines += [f"(class {kind} ({' '.join(permissions)}))" for kind, permissions in classes.items()]
    return "\n".join([BASE, *lines, f"(classorder ({' '.join(classes)}))"])


def links(*texts):
    """True if libsepol links these texts."""
    sepol, database = ctypes.CDLL("libsepol.so.2"), ctypes.c_void_p()
    sepol.cil_set_log_level(0)
    sepol.cil_db_init(ctypes.byref(database))
    for text in (text.encode() for text in texts):
        sepol.cil_add_file(database, b"policy", text, ctypes.c_size_t(len(text)))
    linked = sepol.cil_compile(database) == 0
    sepol.cil_db_destroy(ctypes.byref(database))
    return linked
