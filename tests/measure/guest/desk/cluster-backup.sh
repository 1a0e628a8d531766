#!/bin/bash
# Stand-in for OpenShift's script of this name. The snapshot is real.
set -euo pipefail
now=$(date +%F_%H%M%S)
mkdir -p "$1"
etcdctl snapshot save "$1/snapshot_$now.db"
tar --create --gzip --file "$1/static_kuberesources_$now.tar.gz" --directory /etc/kubernetes manifests
