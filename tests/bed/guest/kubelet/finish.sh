#!/bin/bash
# Makes a node with the real kubelet from the bed's node. Runs in a chroot in a copy of its disk; see kubelet.rs.
set -euo pipefail

# One certificate authority signs for servers, peers and metrics. On OpenShift there are several.
certs=/etc/kubernetes/static-pod-resources/etcd-certs
secrets=$certs/secrets/etcd-all-certs
bundles=$certs/configmaps/etcd-all-bundles
mkdir -p "$secrets" "$bundles" "$certs/configmaps/etcd-scripts"
cd "$secrets"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; chmod 600 "$1"; }
key /root/etcd-ca.key
openssl req -x509 -new -key /root/etcd-ca.key -days 3650 -subj /CN=etcd-signer -out "$bundles/server-ca-bundle.crt"
cp "$bundles/server-ca-bundle.crt" "$bundles/metrics-ca-bundle.crt"
for role in peer serving serving-metrics; do
    name=etcd-$role-NODE_NAME
    key "$name.key"
    openssl req -new -key "$name.key" -subj "/O=system:etcd-${role}s/CN=system:etcd-$role:etcd-client" |
        openssl x509 -req -CA "$bundles/server-ca-bundle.crt" -CAkey /root/etcd-ca.key -days 3650 -out "$name.crt" \
            -extfile /dev/fd/3 3<<END
extendedKeyUsage = clientAuth, serverAuth
subjectAltName = DNS:localhost, DNS:NODE_NAME, IP:127.0.0.1, IP:NODE_IP
END
done
rm /root/etcd-ca.key
# The pod's init container copies the operator's scripts to /usr/local/bin. One is enough to see it do that.
cat >"$certs/configmaps/etcd-scripts/etcd-bed.sh" <<'END'
#!/bin/sh
### Created by cluster-etcd-operator. DO NOT edit. (stand-in)
END

# A member with 2,000 keys, because OpenShift's pod starts only on data of an existing member. etcd runs as root in its
# container.
chown root:root /var/lib/etcd
unshare --net bash -euo pipefail -s <<'END'
ip link set lo up
etcd --name NODE_NAME --data-dir /var/lib/etcd --initial-cluster NODE_NAME=https://NODE_IP:2380 \
    --initial-advertise-peer-urls https://NODE_IP:2380 --listen-peer-urls http://127.0.0.1:2380 \
    --advertise-client-urls https://NODE_IP:2379 --listen-client-urls http://127.0.0.1:2379 --log-level error &
member=$!
for ((try = 0; try < 50; try++)); do etcdctl endpoint health >/dev/null 2>&1 && break; sleep 0.2; done
# etcd's default limit is 128 operations in one transaction.
for ((first = 0; first < 2000; first += 125)); do
    {
        echo
        for ((number = first; number < first + 125; number++)); do
            printf 'put /registry/pods/namespace-%03d/pod-%06d "%s"\n' $((number % 100)) $number \
                "$(printf "$number %.0s" {1..24})"
        done
        printf '\n\n'
    } | etcdctl txn >/dev/null
done
[[ $(etcdctl get / --prefix --keys-only | grep -c .) == 2000 ]]
# The scenarios compare this hash of all keys with the pod's.
etcdctl endpoint hashkv --write-out json >/root/etcd-keys.json
kill $member
wait $member || true
END
# etcdctl in the node asks the pod's etcd, as `oc rsh` into the container etcdctl does.
cat >>/etc/environment <<END
ETCDCTL_ENDPOINTS=https://127.0.0.1:2379
ETCDCTL_CACERT=$bundles/server-ca-bundle.crt
ETCDCTL_CERT=$secrets/etcd-peer-NODE_NAME.crt
ETCDCTL_KEY=$secrets/etcd-peer-NODE_NAME.key
END

systemctl --quiet disable etcd.service
systemctl --quiet enable crio.service kubelet.service
install -d -m 0700 /etc/kubernetes/manifests
