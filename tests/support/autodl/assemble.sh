#!/bin/sh
# Put a rented container together and become its first process. Runs as pid 1 of new mount, pid, uts and ipc
# namespaces, inside the mount namespace of the region that holds the disks:
#   assemble.sh DISKS PORT BOOT_ID HOSTNAME SHM_BYTES CARDS PYTHON_LIB
# DISKS holds system/{root,upper,work} and data (both capped), fs (the region's), pub, python-lib, cgroup, m.
set -eu
disks=$1 port=$2 boot_id=$3 name=$4 shm_bytes=$5 cards=$6 python_lib=$7
box=$disks/m

mount --bind "$disks/system/root" "$box"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$disks/system/upper,workdir=$disks/system/work" "$box/usr"

if [ ! -e "$box/init/made" ]; then # the image: what AutoDL's has, and what it lacks
  for place in ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf alternatives localtime host.conf bash.bashrc; do
    if [ -e "/etc/$place" ] || [ -L "/etc/$place" ]; then cp -a "/etc/$place" "$box/etc/"; fi
  done
  rm -rf "$box/usr/local/bin" "$box/usr/local/sbin"
  mkdir "$box/usr/local/bin" "$box/usr/local/sbin"
  for place in "$box/usr/bin" "$box/usr/sbin" "$box/usr/games"; do
    for program in python pypy pydoc tmux screen rsync nvidia-smi systemctl systemd-run loginctl conda; do
      rm -f "$place/$program" "$place/$program"[0-9.-]*
    done
    for program in shutdown poweroff halt reboot; do rm -f "$place/$program"; done
  done
  for program in shutdown poweroff; do cp "$box/init/shutdown" "$box/usr/bin/$program"; done
  : >"$box/init/made"
fi
rm -f "$box/usr/bin/nvidia-smi"
if [ "$cards" = yes ]; then cp "$box/init/nvidia-smi" "$box/usr/bin/nvidia-smi"; fi

mount --bind "$disks/python-lib" "$box/root/miniconda3/lib"
mount -o remount,bind,ro "$box/root/miniconda3/lib"
case "$python_lib" in # a Python with a shared library looks for that where it was built
/usr/*) ;;
*) mkdir -p "$box$python_lib" && mount --bind "$box/root/miniconda3/lib" "$box$python_lib" ;;
esac
mount --bind "$disks/data" "$box/root/autodl-tmp"
mount --bind "$disks/fs" "$box/root/autodl-fs"
mount --bind "$disks/pub" "$box/root/autodl-pub"
mount -o remount,bind,ro "$box/root/autodl-pub"

mount -t tmpfs -o size=1m,mode=755 tmpfs "$box/dev"
for device in null zero full random urandom tty; do
  : >"$box/dev/$device"
  mount --bind "/dev/$device" "$box/dev/$device"
done
mkdir "$box/dev/pts" "$box/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$box/dev/pts"
ln -s pts/ptmx "$box/dev/ptmx"
ln -s /proc/self/fd "$box/dev/fd"
mount -t tmpfs -o "size=$shm_bytes,mode=1777" tmpfs "$box/dev/shm"
mount -t tmpfs -o size=16m,mode=755 tmpfs "$box/run"
mkdir "$box/run/sshd"
mount -t proc proc "$box/proc"
echo "$boot_id" >"$box/run/boot_id"
mount --bind "$box/run/boot_id" "$box/proc/sys/kernel/random/boot_id"
mount -t tmpfs -o size=1m,mode=755 tmpfs "$box/sys"
mkdir -p "$box/sys/fs/cgroup"
cp -R "$disks/cgroup/." "$box/sys/fs/cgroup/"
mount -o remount,ro "$box/sys"
hostname "$name"

mkdir -p "$box/.outside"
cd "$box"
pivot_root . .outside
umount -l /.outside
rmdir /.outside
exec /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /init/boot.sh "$port"
