#!/bin/bash
# Puts the program etcd-lun in place. Written by `etcd-lun render`. Trusts only the sha256 in /etc/etcd-lun/program.
#
# etcd-lun-program.service runs `place`. Without a copy, that starts etcd-lun-program-fetch.service, which runs `fetch`.

set -euo pipefail
umask 022
export LC_ALL=C

order=/etc/etcd-lun/program
bin=/var/lib/etcd-lun/bin
program=$bin/etcd-lun
# Copies of this program and of the one before it, so that an older object needs no registry. Named by their sha256.
kept=/var/lib/etcd-lun/program
packed=/usr/local/lib/etcd-lun/program.lzma
link=/usr/local/bin/etcd-lun
# The messages of `fetch`, so that the journal has them once, under etcd-lun-program.service.
said=/run/etcd-lun-program.error
pull_secret=/var/lib/kubelet/config.json

say() { echo "etcd-lun-program: $*" >&2; }

# Exit code 3: refused. 1: anything else.
fail() {
    local code=$1
    shift
    if [ "$verb" = fetch ]; then echo "$*" >"$said"; else say "$*"; fi
    exit "$code"
}

is_right() { [ -f "$1" ] && echo "$wanted  $1" | sha256sum --check --status; }

sum_of() {
    local sum
    sum=$(sha256sum <"$1")
    echo "${sum%% *}"
}

# Without SELinux or the policy module this changes nothing that matters.
label() { ! command -v restorecon >/dev/null || restorecon -R "$@" || :; }

# The state's directory is root's alone, as etcd-lun makes it.
make() { (umask 077 && mkdir -p "$@"); }

# Keeps $kept/.new if it is the right program.
keep() {
    is_right "$kept/.new" || return
    sync "$kept/.new" && mv --no-target-directory "$kept/.new" "$kept/$wanted" && sync "$kept"
}

# A program that is neither the wanted one nor that of an earlier object is damaged, and must not run. If no object has
# brought one yet, a person has put it there, and it may serve until the wanted one comes.
remove_damaged() {
    local found
    [ -f "$program" ] && [ -n "$(ls -A "$kept" 2>/dev/null)" ] || return 0
    found=$(sum_of "$program")
    if [ ! -f "$kept/$found" ]; then
        say "$program is damaged (sha256 $found, expected $wanted): removed"
        rm -f "$program"
    fi
}

copy_of_order() {
    if [ -n "$image" ]; then
        rm -f "$said"
        systemctl start etcd-lun-program-fetch.service 2>/dev/null ||
            fail 1 "$(cat "$said" 2>/dev/null || echo "etcd-lun-program-fetch.service failed: see its journal")"
    else
        make "$kept"
        xz --decompress --stdout "$packed" >"$kept/.new" || :
        keep || fail 3 "$packed is not the program that $order names. Render the object again, and apply it"
    fi
}

install() {
    make "$bin"
    cp "$kept/$wanted" "$program.new"
    is_right "$program.new" || fail 1 "$kept/$wanted changed while it was copied: run this unit again"
    chmod 0755 "$program.new"
    label /var/lib/etcd-lun/bin /var/lib/etcd-lun/program
    sync "$program.new"
    mv --no-target-directory "$program.new" "$program"
    sync "$bin"
    touch "$kept/$wanted"
    local one other=
    for one in "$kept"/*; do
        if [ "$one" != "$kept/$wanted" ] && [ "$one" -nt "$other" ]; then other=$one; fi
    done
    for one in "$kept"/*; do
        [ "$one" = "$kept/$wanted" ] || [ "$one" = "$other" ] || rm -f "$one"
    done
    say "installed $program (sha256 $wanted)"
}

place() {
    if ! is_right "$program" || [ ! -x "$program" ]; then
        if ! is_right "$kept/$wanted"; then
            remove_damaged
            copy_of_order
        fi
        install
    fi
    # For people. A file of the same name is somebody's own.
    if [ ! "$link" -ef "$program" ]; then
        if [ -e "$link" ] && [ ! -L "$link" ]; then
            say "$link is not a link and stays as it is. The units run $program"
        else
            mkdir -p "${link%/*}"
            ln -sfn "$program" "$link"
        fi
    fi
}

# Copies the program out of the image. It never runs from there: a power cut empties the storage of images. podman writes to its
# standard output, because a policy may confine podman and let it write nowhere but to its own storage.
copy_out() {
    podman create --replace --name etcd-lun-program --pull=never --network=none "$image" /etcd-lun >/dev/null &&
        podman cp etcd-lun-program:/etcd-lun - | tar --extract --to-stdout --file=- 2>/dev/null >"$kept/.new" &&
        podman rm --force etcd-lun-program >/dev/null || return
    keep || {
        local found
        found=$(sum_of "$kept/.new")
        rm -f "$kept/.new"
        fail 3 "the image $image holds another program (sha256 $found, expected $wanted). Nothing was installed." \
            "Render the object with the image and the program of one release, and apply it"
    }
}

fetch() {
    local auth=() error
    [ ! -e "$pull_secret" ] || auth=("--authfile=$pull_secret")
    make "$kept"
    rm -rf "$kept/.new" "$said"
    if podman image exists "$image"; then
        if error=$(copy_out 2>&1); then return; fi
        [ ! -s "$said" ] || exit 3
        # A layer is incomplete. podman would not fetch it again.
        podman rmi --force "$image" >/dev/null 2>&1 || :
    fi
    error=$(timeout 300 podman pull --quiet "${auth[@]}" "$image" 2>&1) ||
        fail 1 "cannot fetch the image $image: ${error##*$'\n'}." \
            "It is tried again in 20 seconds. Try by hand: podman pull ${auth[*]:+${auth[*]} }$image"
    error=$(copy_out 2>&1) || {
        [ ! -s "$said" ] || exit 3
        fail 1 "cannot copy /etcd-lun out of the image $image: ${error##*$'\n'}"
    }
}

verb=${1-}
wanted='' image=''
machine=$(uname -m)
while IFS='=' read -r key value; do
    case $key in
    image) image=$value ;;
    "$machine") wanted=$value ;;
    esac
done <"$order"
[ -n "$wanted" ] ||
    fail 3 "$order has no program for $machine. Render the object with one more --program FILE, built for $machine"
case $verb in
place | fetch) "$verb" ;;
*) fail 2 "usage: ${0##*/} place | fetch" ;;
esac
