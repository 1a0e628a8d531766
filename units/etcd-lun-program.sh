#!/bin/bash
# Puts the program etcd-lun in place. Written by `etcd-lun render`. Trusts only the sha256 in /etc/etcd-lun/program.
#
# etcd-lun-program.service runs `place SECONDS`. Without a copy, that starts etcd-lun-program-fetch.service, which runs `fetch`:
# for that long where there is no program at all. Before an update `etcd-lun pool fetch` runs `ahead IMAGE SHA256`, which keeps a copy.

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
# Exit code, order and message of `fetch`, so that the journal has them once, under etcd-lun-program.service.
said=/run/etcd-lun-program.error
pull_secret=/var/lib/kubelet/config.json
# MiB, for a copy and what is put in place of the program.
room=64

say() { echo "etcd-lun-program: $*" >&2; }

# Exit code 3: refused. 1: anything else.
fail() {
    local code=$1
    shift
    if [ "$verb" = fetch ]; then echo "$code $image=$wanted $*" >"$said"; else say "$*"; fi
    exit "$code"
}

sum_of() { sha256sum <"$1" | cut -c -64; }

is_right() { [ -f "$1" ] && [ "$(sum_of "$1")" = "$wanted" ]; }

# Without SELinux or the policy module this changes nothing that matters.
label() { ! command -v restorecon >/dev/null || restorecon -R "$@" || :; }

# The state's directory is root's alone, as etcd-lun makes it.
make() { (umask 077 && mkdir -p "$@"); }

# Keeps $kept/.new if it is the right program.
keep() {
    is_right "$kept/.new" || return
    sync "$kept/.new" && mv --no-target-directory "$kept/.new" "$kept/$wanted" && sync "$kept"
}

# A program that is neither the wanted one nor that of an earlier object is damaged, and must not run: the newest good copy does. If
# no object has brought one yet, a person has put it there, and it may serve until the wanted one comes.
replace_damaged() {
    local found one good=
    [ -f "$program" ] && [ -n "$(ls -A "$kept" 2>/dev/null)" ] || return 0
    found=$(sum_of "$program")
    [ ! -f "$kept/$found" ] || return 0
    for one in "$kept"/*; do
        if [ "$(sum_of "$one")" = "${one##*/}" ] && [ "$one" -nt "$good" ]; then good=$one; fi
    done
    if [ -n "$good" ]; then put_in_place "$good" "${good##*/}"; else rm -f "$program"; fi
    say "$program was damaged (sha256 $found): $([ -n "$good" ] && echo "replaced by the copy $good" || echo removed)"
}

copy_of_order() {
    local until=$((SECONDS + patience)) code asked error
    if [ -z "$image" ]; then
        make "$kept"
        xz --decompress --stdout "$packed" >"$kept/.new" || :
        keep || fail 3 "$packed is not the program that $order names. Render the object again, and apply it"
        return
    fi
    # systemd starts this unit when etcd-lun.service has failed, and once more when it tries again. And what a fresh image lacks, the
    # next one lacks too.
    if [ -e "$said" ]; then
        read -r code asked error <"$said"
        if [ "$asked" = "$image=$wanted" ]; then
            if [ "$code" = 3 ]; then fail 1 "$error"; fi
            if [ -x "$program" ] && [ -n "$(find "$said" -newermt '-10 seconds')" ]; then fail 1 "$error"; fi
        fi
    fi
    while :; do
        rm -f "$said"
        if systemctl start etcd-lun-program-fetch.service 2>/dev/null; then return; fi
        code=1 error="etcd-lun-program-fetch.service failed: see its journal"
        [ ! -e "$said" ] || read -r code asked error <"$said"
        # A registry may refuse once, and a clock be set late. Another boot would cost a drain.
        if [ "$code" = 3 ] || [ -x "$program" ] || ((SECONDS >= until)); then fail 1 "$error"; fi
        sleep 5
    done
}

# Puts a copy with this sha256 in the program's place.
put_in_place() {
    make "$bin"
    cp "$1" "$program.new"
    [ "$(sum_of "$program.new")" = "$2" ] || fail 1 "$1 changed while it was copied: run this unit again"
    chmod 0755 "$program.new"
    label /var/lib/etcd-lun/bin /var/lib/etcd-lun/program
    sync "$program.new"
    mv --no-target-directory "$program.new" "$program"
    sync "$bin"
}

install() {
    put_in_place "$kept/$wanted" "$wanted"
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
            replace_damaged
            copy_of_order
        fi
        install
    elif [ ! -f "$kept/$wanted" ]; then
        make "$kept"
        cp "$program" "$kept/.new"
        keep
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
# standard output, because a policy may confine podman and let it write nowhere but to its own storage. Fails with 3 if the image
# holds another program.
copy_out() {
    podman create --replace --name etcd-lun-program --pull=never --network=none "$image" /etcd-lun >/dev/null &&
        podman cp etcd-lun-program:/etcd-lun - | tar --extract --to-stdout --file=- >"$kept/.new" &&
        podman rm --force etcd-lun-program >/dev/null || return 1
    keep || {
        echo "the image $image holds another program (sha256 $(sum_of "$kept/.new"), expected $wanted). Nothing was installed." \
            "Render the object with the image and the program of one release, and apply it"
        return 3
    }
}

pull() {
    local auth=() error again=
    [ ! -e "$pull_secret" ] || auth=("--authfile=$pull_secret")
    [ "$verb" = ahead ] || again=" It is tried again within a minute. Try by hand: systemctl restart etcd-lun-program"
    error=$(timeout 300 podman pull --quiet "${auth[@]}" "$image" 2>&1) ||
        fail 1 "cannot fetch the image $image: ${error##*$'\n'}.$again"
}

# What a power cut has left of an image is there for podman, and wrong: podman looks into no layer that it has, and would not fetch
# it again. So an image that does not hold the program is removed and pulled, once more after a pull too, which may have found old
# layers.
fetch() {
    local error code=0 free try
    make "$kept"
    rm -rf "$kept/.new" "$said"
    free=$(df --output=avail --block-size=1M "$kept" | tail -n 1)
    [ "$free" -ge "$room" ] ||
        fail 1 "$kept has $free MiB free, and a program needs $room MiB: make room there"
    podman image exists "$image" || pull
    for try in again last; do
        if error=$(copy_out 2>&1); then return; else code=$?; fi
        rm -f "$kept/.new"
        [ "$try" = again ] || break
        podman rmi --force "$image" >/dev/null 2>&1 || :
        pull
    done
    [ "$code" = 1 ] || fail 3 "$error"
    fail 1 "cannot copy /etcd-lun out of the image $image: ${error##*$'\n'}"
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
if [ "$verb" = ahead ]; then image=${2-} wanted=${3-}; fi
[ -n "$wanted" ] ||
    fail 3 "$order has no program for $machine. Render the object with one more --program FILE, built for $machine"
case $verb in
place)
    patience=${2-0}
    place
    ;;
fetch) fetch ;;
ahead)
    is_right "$kept/$wanted" || fetch
    # Older than any other: no object may ever bring it, and the newest other copy is the way back.
    touch --date=@0 "$kept/$wanted"
    say "$kept/$wanted is the program of $image: the next boot of an object that names it needs no registry"
    ;;
*) fail 2 "usage: ${0##*/} place [SECONDS] | fetch | ahead IMAGE SHA256" ;;
esac
