configfs=/sys/kernel/config/target
# The portal group, in the form of targetcli and in that of the kernel.
portal_group=/iscsi/$target/tpg1
in_kernel=$configfs/iscsi/$target/tpgt_1

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Runs a command of targetcli, unless its result already exists: PLACE-IN-CONFIGFS COMMAND...
ensure() {
    place=$1
    shift
    [ -e "$place" ] || targetcli "$@" >&2
}

# Gives the secret in a file to the kernel: FILE ATTRIBUTE. printf is a builtin of the shell, so the secret is in no
# argument list.
hand_over() {
    [ -r "$1" ] || die "$1: no such file, or it can't be read: put the secret there, or name another file"
    secret=$(cat -- "$1")
    secret=${secret%"$(printf '\r')"}
    case $secret in
    '' | NULL*) die "the secret in $1 is empty or begins with NULL, which the kernel regards as no secret: choose another" ;;
    esac
    printf %s "$secret" >"$2"
}

# Sets credentials: DIRECTORY USER FILE [TARGET'S-USER FILE]
credentials() {
    printf %s "$2" >"$1/userid"
    hand_over "$3" "$1/password"
    if [ $# -gt 3 ]; then
        printf %s "$4" >"$1/userid_mutual"
        hand_over "$5" "$1/password_mutual"
    else
        printf NULL >"$1/userid_mutual"
        printf NULL >"$1/password_mutual"
    fi
}

# Prints where the links in a directory of configfs lead.
behind() {
    for link in "$1"/*; do
        [ ! -L "$link" ] || readlink -f "$link"
    done
}

# Prints how to take a LUN from an initiator: INITIATOR LUN
to_delete() {
    printf 'targetcli %s/acls/%s delete %s, then run this again' "$portal_group" "$1" "$2"
}

# Lets a node see its own LUN and no other: NAME INITIATOR LUN BACKSTORE [WWID]. Adds a line to $found.
found=''
grant() {
    acl=$in_kernel/acls/$2
    ensure "$acl" "$portal_group/acls" create "wwn=$2" add_mapped_luns=false
    for mapped in "$acl"/lun_*; do
        [ ! -e "$mapped" ] || [ "$mapped" = "$acl/lun_$3" ] ||
            die "$2 sees LUN ${mapped##*/lun_}, which the config doesn't give it: $(to_delete "$2" "${mapped##*/lun_}")"
    done
    ensure "$acl/lun_$3" "$portal_group/acls/$2" create "mapped_lun=$3" "tpg_lun_or_backstore=$4"
    store=$(behind "$(behind "$acl/lun_$3")")
    [ "${store##*/}" = "${4##*/}" ] ||
        die "LUN $3 of $2 is ${store##*/}, expected ${4##*/}: $(to_delete "$2" "$3")"
    # The kernel makes the identifier like this: 25 hexadecimal digits of the serial number behind LIO's prefix
    # (drivers/target/target_core_spc.c, spc_gen_naa_6h_vendor_specific).
    serial=$(cat "$store/wwn/vpd_unit_serial")
    digits=$(printf %s "${serial##*:}" | tr -cd 0-9A-Fa-f | tr A-F a-f)
    wwid=$(printf 'naa.6001405%.25s' "${digits}0000000000000000000000000")
    [ -z "${5-}" ] || [ "$5" = "$wwid" ] ||
        die "${4##*/} has the WWID $wwid, and the config has $5 for $1: correct the config, or delete and recreate that backstore"
    found="${found}wwid = \"$wwid\"  # $1
"
}

[ "$(id -u)" = 0 ] || die "run this as root: it changes the kernel's target"
command -v targetcli >/dev/null || die "there is no targetcli: install targetcli (RHEL) or targetcli-fb (Debian)"
# A directory for the preferences, log and history of this run, so that those of a user are neither used nor changed.
TARGETCLI_HOME=$(mktemp -d)
export TARGETCLI_HOME
trap 'rm -rf -- "$TARGETCLI_HOME"' EXIT
targetcli set global auto_add_default_portal=false auto_add_mapped_luns=false >/dev/null
