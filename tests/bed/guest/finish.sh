#!/bin/sh
# Makes a node of a fresh Debian tree. Runs in a chroot of it; see image.rs.
set -eu

# etcd: its directory as on a real node; which unit runs it is the bed's business.
rm -rf /var/lib/etcd
install -d -m 0700 -o etcd -g etcd /var/lib/etcd

# iSCSI as on Red Hat CoreOS: the daemon by its socket, nothing logs in by itself, and no initiator name yet.
rm -f /etc/iscsi/initiatorname.iscsi

# What costs boot time and that no test looks at.
off() { systemctl --quiet disable "$@"; systemctl --quiet mask "$@"; }
systemctl --quiet disable etcd.service open-iscsi.service multipathd.service
rm -f /etc/systemd/system/etcd2.service /etc/systemd/system/multi-user.target.wants/etcd.service
off apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service
off fstrim.timer xfs_scrub_all.timer lvm2-monitor.service blk-availability.service systemd-pstore.service
off getty@tty1.service serial-getty@ttyS0.service modprobe@drm.service systemd-udev-load-credentials.service
systemctl --quiet set-default multi-user.target
systemctl --quiet enable systemd-networkd.service systemd-networkd-wait-online.service iscsid.socket ssh.service

# Everything that would be done once, at the first boot.
: >/etc/fstab
: >/etc/machine-id
mkdir -p /var/log/journal
passwd --quiet --delete root
ssh-keygen -q -A
chmod 0700 /root/.ssh
update-initramfs -u >/dev/null 2>&1
rm -rf /var/cache/apt/* /var/lib/apt/lists/*
touch /etc/.updated /var/.updated

# Labels, for the boots where SELinux enforces. Last, so that they are complete.
setfiles -F /etc/selinux/default/contexts/files/file_contexts /
