#!/bin/sh
# Makes a node from a new Debian tree. Runs in a chroot in this tree; see image.rs.
set -eu

# etcd: its directory is as on a real node. The bed chooses the unit that runs etcd.
rm -rf /var/lib/etcd
install -d -m 0700 -o etcd -g etcd /var/lib/etcd

# iSCSI as on Red Hat CoreOS: a socket starts the daemon, nothing logs in by itself, and there is no initiator name
# yet.
rm -f /etc/iscsi/initiatorname.iscsi

# Units that cost boot time and that no test needs.
off() { systemctl --quiet disable "$@"; systemctl --quiet mask "$@"; }
systemctl --quiet disable etcd.service open-iscsi.service multipathd.service
rm -f /etc/systemd/system/etcd2.service /etc/systemd/system/multi-user.target.wants/etcd.service
off apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service
off fstrim.timer xfs_scrub_all.timer lvm2-monitor.service blk-availability.service systemd-pstore.service
off getty@tty1.service serial-getty@ttyS0.service modprobe@drm.service systemd-udev-load-credentials.service
off dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount
off modprobe@fuse.service modprobe@efi_pstore.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount
off systemd-network-generator.service systemd-networkd-persistent-storage.service systemd-sysext.socket
# Generators run at every boot and at every `systemctl daemon-reload`, which tests do often.
mkdir -p /etc/systemd/system-generators
for generator in getty gpt-auto hibernate-resume rc-local run ssh system-update sysv tpm2; do
    ln -s /dev/null "/etc/systemd/system-generators/systemd-$generator-generator"
done
ln -s /dev/null /etc/systemd/system-generators/selinux-autorelabel-generator.sh
# Rules for devices that the bed's nodes do not have. The rules for disks, multipath and LVM stay.
for rule in 60-autosuspend 60-cdrom_id 60-drm 60-evdev 60-fido-id 60-infiniband 60-input-id 60-persistent-alsa \
    60-persistent-input 60-persistent-storage-mtd 60-persistent-storage-tape 60-persistent-v4l 60-sensor 60-serial \
    64-btrfs 70-camera 70-joystick 70-memory 70-mouse 70-power-switch 70-touchpad 70-uaccess 71-seat 73-seat-late \
    75-net-description 75-probe_mtd 78-sound-card; do
    ln -s /dev/null "/etc/udev/rules.d/$rule.rules"
done
printf 'blacklist %s\n' i2c_piix4 psmouse pcspkr serio_raw evdev joydev floppy ata_piix ata_generic cfg80211 \
    >/etc/modprobe.d/bed.conf
systemctl --quiet set-default multi-user.target
systemctl --quiet enable systemd-networkd.service systemd-networkd-wait-online.service iscsid.socket ssh.service
systemctl --quiet enable sysroot.mount var.mount usr.mount
# A node may be booted as a target. The bed chooses the targets.
off rtslib-fb-targetctl.service

# A user who is not root, as on Red Hat CoreOS, with root's key.
mkdir -p /var/home
rmdir /home
ln -s var/home /home
useradd --create-home --shell /bin/bash --password '*' core
install -d -m 0700 -o core -g core /home/core/.ssh
install -m 0600 -o core -g core /root/.ssh/authorized_keys /home/core/.ssh/authorized_keys

# Things that would otherwise be done once, at the first boot.
: >/etc/fstab
: >/etc/machine-id
mkdir -p /var/log/journal
passwd --quiet --delete root
ssh-keygen -q -A
chmod 0700 /root/.ssh
update-initramfs -u >/dev/null 2>&1
rm -rf /var/cache/apt/* /var/lib/apt/lists/*
touch /etc/.updated /var/.updated

# The layout of Red Hat CoreOS, which is an ostree system. /usr/local is in /var. /var is in the directory of the
# state root, from which var.mount mounts it. On a real node /ostree is a link into /sysroot. Here it is a
# directory, and /sysroot shows it.
mv /usr/local /var/usrlocal
ln -s ../var/usrlocal /usr/local
mkdir -p /var/usrlocal/bin /sysroot /ostree/deploy/rhcos
echo 'f /run/ostree-booted' >/etc/tmpfiles.d/ostree-booted.conf

# Debian's policy knows all tools that the agent runs, except iscsiadm, which gets the label of Red Hat's policy
# here. `dontaudit` rules are disabled, because they would hide denials that the tests must see.
cat >/tmp/bed.cil <<'END'
(filecon "/usr/bin/iscsiadm" file (system_u object_r iscsid_exec_t ((s0) (s0))))
(filecon "/usr/sbin/iscsiadm" file (system_u object_r iscsid_exec_t ((s0) (s0))))
END
semodule --noreload --disable_dontaudit --install /tmp/bed.cil
rm /tmp/bed.cil

# Labels for the boots that enforce SELinux. Labels depend on paths, so only the move of /var comes later.
echo '/var/usrlocal /usr/local' >>/etc/selinux/default/contexts/files/file_contexts.subs_dist
setfiles -F /etc/selinux/default/contexts/files/file_contexts /
mv /var /ostree/deploy/rhcos/var
mkdir /var
setfiles -F /etc/selinux/default/contexts/files/file_contexts /var
