#!/usr/bin/env bash
# Build a real Kubernetes 1.20.2 (apiserver, controller-manager, scheduler, kubelet, kubectl) from Debian's source
# package into a cache folder named after the version; a second call finds it there. Only apt is used, only as root.
# The first build takes about 7 minutes on two quiet cores. --check only says whether the parts are there.
set -euo pipefail

version=1.20.2
cache=${LEASEHOLD_K8S:-/var/cache/leasehold-k8s}/$version
programs='kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl'
packages='golang-go etcd-server jq rsync make gcc libc6-dev dpkg-dev golang-github-modern-go-reflect2-dev'

complete() {
  command -v etcd >/dev/null || return 1
  for program in $programs; do [ -x "$cache/bin/$program" ] || return 1; done
}

if complete; then
  echo "k8s parts: all here ($cache/bin)"
  exit 0
fi
if [ "${1:-}" = --check ]; then
  echo "k8s parts: not built ($cache/bin); tools/k8s_parts.sh builds them" >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "k8s parts: missing, and building them needs root and apt-get" >&2
  exit 1
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if complete; then exit 0; fi

export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
# shellcheck disable=SC2086
apt-get -qq install -y --no-install-recommends $packages >/dev/null

work=$cache/build
mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/home"
sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$work/apt/src.sources"
sources=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/apt"
  -o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt" -o APT::Sandbox::User=root)
cd "$work"
apt-get "${sources[@]}" -qq update
apt-get "${sources[@]}" -qq source --download-only kubernetes
rm -rf source
dpkg-source --no-check -x kubernetes_*"$version"-*.dsc source

cd source
# The vendored reflect2 does not know Go 1.19's map layout: with it the apiserver crashes at its first request.
rm -rf vendor/github.com/modern-go/reflect2
cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/
mkdir -p .go/src/k8s.io
ln -sfn ../../.. .go/src/k8s.io/kubernetes
export GOPATH=$PWD/.go CGO_ENABLED=0 HOME=$work/home GOCACHE=$work/gocache GOPROXY=off GOSUMDB=off
export KUBE_GIT_VERSION=v$version
# A function of make may have leaked from the caller's `make ci`: the build has a Makefile of its own.
unset MAKEFLAGS MAKELEVEL MFLAGS
make WHAT="cmd/kube-apiserver cmd/kube-controller-manager cmd/kube-scheduler cmd/kubelet cmd/kubectl" >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  exit 1
}
mkdir -p "$cache/bin"
for program in $programs; do install -m 755 "_output/bin/$program" "$cache/bin/"; done
cd "$cache"
rm -rf "$work"
echo "k8s parts: built in $cache/bin"
