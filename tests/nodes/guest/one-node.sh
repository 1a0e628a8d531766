#!/bin/bash
# Types docs/one-node.md on a node, from the page itself: every `# ` command of its blocks, in their order, and its config.
#
#     type PORTAL INITIATOR SECRET
#
# The page lies beside this. Before the first command the node gets what the page's reader has: etcd's data where Debian has
# it, the program and the secret in the working directory. Packages are not installed: the node has them.
set -euo pipefail
portal=$1 initiator=$2
cd /root
page=one-node.md data=/var/lib/etcd/default

systemctl stop etcd
install -d -o etcd -g etcd -m 700 $data
mv /var/lib/etcd/member $data/
mkdir -p /etc/systemd/system/etcd.service.d
printf '[Service]\nEnvironment=ETCD_DATA_DIR=%s\n' $data >/etc/systemd/system/etcd.service.d/debian.conf
systemctl daemon-reload
systemctl start etcd
mv /var/lib/etcd-lun/bin/etcd-lun .
rm -rf /var/lib/etcd-lun /usr/local/bin/etcd-lun /etc/etcd-lun
(umask 077 && printf %s "$3" >chap.secret)

# The lines of blocks of a language, without what lists indent them by.
blocks() { awk -v language="$1" '/^ *```/ { shown = $0 ~ "```" language "$"; next } shown { sub(/^   /, ""); print }' "$page"; }
keys() { etcdctl get '' --from-key --keys-only | grep -c .; }

typed=()
while IFS= read -r line; do
    case $line in
    '# '*) typed+=("${line#'# '}") ;;
    *) typed[-1]+=$'\n'$line ;;
    esac
done < <(blocks console)
((${#typed[@]} > 12))

before=$(keys)
for command in "${typed[@]}"; do
    case $command in
    'test -s'*) # step 5 stands between the blocks
        (umask 077 && blocks toml | sed "s/192.168.10.5/$portal/; s/etcd-0\"/$(hostname)\"/; s/^initiator = .*/initiator = \"$initiator\"/" &&
            printf '[lun]\nmin_size = "512MiB"\n') >/etc/etcd-lun/config.toml
        ;;
    'etcd-lun render units'*) etcd-lun config check && etcd-lun luns | grep 'the config names it' ;;
    'etcd-lun rollback')
        findmnt --noheadings --output FSTYPE,OPTIONS $data | grep 'xfs.*prjquota'
        [[ $(keys) == "$before" ]]
        # While the LUN is mounted a rollback needs no secret.
        mv /etc/credstore.encrypted/chap.cred /root/kept
        ;;
    esac
    printf '# %s\n' "$command"
    # As at a prompt: a pipe or a list has one exit code.
    bash -c "$command" || { code=$?; [[ $command == 'etcd-lun health' && $code == 4 ]] || exit "$code"; }
done
if findmnt $data; then exit 1; fi
[[ $(keys) == "$before" ]]
left=$(find /etc /usr/local/ /var/lib /var/node_exporter -name '*etcd-lun*' 2>/dev/null) || true
[[ -z $left ]] || { echo "left behind: $left"; exit 1; }
if systemctl list-unit-files --no-legend 'etcd-lun*' | grep .; then exit 1; fi
