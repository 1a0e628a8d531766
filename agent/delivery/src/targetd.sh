die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Calls a method of targetd: METHOD <PARAMETERS, prints the result. curl reads the request from its standard input, and
# the account from the netrc file, so no secret is in an argument.
#
# targetd closes the connection without TLS's notice, an error (56) to some curls. Part of an answer is no JSON.
call() {
    code=0
    reply=$(jq -c --arg method "$1" '{jsonrpc: "2.0", id: 1, method: $method, params: .}' |
        curl --silent --show-error --fail --proto =https --max-time 120 --netrc-file "$netrc" \
            ${authority:+--cacert "$authority"} --header 'Content-Type: application/json' --data-binary @- "$url" 2>"$trouble") || code=$?
    if [ "$code" != 0 ] && { [ "$code" != 56 ] || [ -z "$reply" ]; }; then
        cat "$trouble" >&2
        die "$1: $url gives no answer: see curl's line above (401: the account in $netrc is wrong; 60 or 77: name the CA's file)"
    fi
    refusal=$(printf %s "$reply" | jq -r 'if .error then "\(.error.message) (error \(.error.code))" else "" end') ||
        die "$1: the answer of $url is no whole JSON: is it targetd's address?"
    [ -z "$refusal" ] || die "$1: targetd refuses: $refusal"
    printf %s "$reply" | jq -c .result
}

# A volume has whole extents, of 4 MiB unless somebody chose otherwise. So it may be a little larger than asked for.
extent=268435456

# Stops at whatever contradicts the config, before anything is changed: NAME VOLUME INITIATOR LUN
check() {
    has=$(printf %s "$volumes" | jq -r --arg volume "$2" '.[] | select(.name == $volume) | .size')
    if [ -n "$has" ] && { [ "$has" -lt "$size" ] || [ "$has" -ge $((size + extent)) ]; }; then
        die "volume $2 in $pool has $has bytes, and the config wants $size for $1: set \`lun.min_size\` to its size, or make it that large at the appliance"
    fi
    wrong=$(printf %s "$exports" | jq -r --arg volume "$2" --arg group "${pool%%/*}" --arg initiator "$3" --argjson lun "$4" '
        .[] | (.vol_name == $volume and .pool == $group) as $same | (.initiator_wwn == $initiator) as $own
        | if $own and $same and .lun != $lun then "\($volume) is LUN \(.lun) of \($initiator), expected LUN \($lun)"
          elif $own and ($same | not) then "\($initiator) sees LUN \(.lun) (\(.vol_name) in \(.pool)), which the config does not give it"
          elif $same and ($own | not) then "\($volume) is exported to \(.initiator_wwn) too: two nodes would write to it"
          else empty end')
    [ -z "$wrong" ] || die "$wrong: remove that export at the appliance (export_destroy), then run this again"
}

# Makes the volume, unless it exists, and exports it, unless it is: NAME VOLUME INITIATOR LUN
make() {
    has=$(printf %s "$volumes" | jq -r --arg volume "$2" '.[] | select(.name == $volume) | .size')
    if [ -z "$has" ]; then
        jq -n --arg pool "$pool" --arg name "$2" --argjson size "$size" '$ARGS.named' | call vol_create >/dev/null
        echo "made volume $2 in $pool, $size bytes" >&2
    fi
    has=$(printf %s "$exports" | jq -r --arg volume "$2" --arg initiator "$3" \
        '.[] | select(.initiator_wwn == $initiator and .vol_name == $volume) | .lun')
    if [ -z "$has" ]; then
        jq -n --arg pool "$pool" --arg vol "$2" --arg initiator_wwn "$3" --argjson lun "$4" '$ARGS.named' |
            call export_create >/dev/null
        echo "exported $2 to $3 as LUN $4" >&2
    fi
}

# Stops unless a file holds a secret: FILE
holds_secret() {
    [ -r "$1" ] || die "$1: no such file, or it can't be read: put the secret there, or name another file"
    [ -n "$(cat -- "$1")" ] || die "the secret in $1 is empty"
}

# Sets an initiator's credentials: INITIATOR USER FILE [TARGET'S-USER FILE]. jq reads the secrets from the files.
credentials() {
    jq -n --arg initiator_wwn "$1" --arg in_user "$2" --rawfile in_pass "$3" --arg out_user "${4-}" --rawfile out_pass "${5-/dev/null}" '
        def one: sub("\r?\n$"; "");
        $ARGS.named | .in_pass |= one | .out_pass |= one
        | if .out_user == "" then .out_user = null | .out_pass = null else . end' |
        call initiator_set_auth >/dev/null
}

# Prints the WWID of a volume, for the config: NAME VOLUME [WWID]. The kernel makes it from the volume's UUID: the first
# 25 hexadecimal digits behind LIO's prefix (drivers/target/target_core_spc.c, spc_gen_naa_6h_vendor_specific).
show() {
    uuid=$(printf %s "$exports" | jq -r --arg volume "$2" '.[] | select(.vol_name == $volume) | .vol_uuid')
    digits=$(printf %s "$uuid" | tr -cd 0-9A-Fa-f | tr A-F a-f)
    wwid=$(printf 'naa.6001405%.25s' "${digits}0000000000000000000000000")
    [ -z "${3-}" ] || [ "$3" = "$wwid" ] ||
        die "$2 has the WWID $wwid, and the config has $3 for $1: correct the config"
    printf 'wwid = "%s"  # %s\n' "$wwid" "$1"
}

for tool in curl jq; do
    command -v "$tool" >/dev/null || die "there is no $tool: install the package $tool"
done
trouble=$(mktemp)
trap 'rm -f "$trouble"' EXIT
[ -r "$netrc" ] || die "$netrc: no such file, or it can't be read: write \`machine HOST login USER password SECRET\` there, with mode 0600"
volumes=$(jq -n --arg pool "$pool" '$ARGS.named' | call vol_list)
exports=$(jq -n '{}' | call export_list)
