#!/bin/sh
# image.sh OUT [WEIR]: write a container image, an archive of OCI's image layout 1.0, which podman
# load, skopeo and docker load (25 or newer) read. In it are the static binary, which is built
# unless WEIR names one, the certificates of this machine, and nothing else. The same binary and
# certificates give the same bytes.
set -eu
out=${1:?usage: image.sh OUT [WEIR]}
weir=${2:-}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

arch=${GOARCH:-$(cd "$here" && go env GOARCH)}
mkdir -p "$work/root/usr/bin" "$work/root/etc/ssl/certs" "$work/root/models" "$work/root/state" \
  "$work/image/blobs/sha256"
if [ -z "$weir" ]; then
  weir=$work/weir
  GOARCH=$arch "$here/deploy/static.sh" "$weir"
fi
cp "$weir" "$work/root/usr/bin/weir"
chmod 755 "$work/root/usr/bin/weir"
for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
  [ -e "$f" ] && cp "$f" "$work/root/etc/ssl/certs/ca-certificates.crt" && break
done
printf 'weir:x:65532:65532::/state:\n' >"$work/root/etc/passwd"
chmod -R u=rwX,go=rX "$work/root"

digest() { sha256sum "$1" | cut -d' ' -f1; }
size() { wc -c <"$1" | tr -d ' '; }
pack() { tar --sort=name --mtime=@0 --numeric-owner "$@"; }
blob() { # moves a file to where its digest says, which it prints
  d=$(digest "$1")
  mv "$1" "$work/image/blobs/sha256/$d"
  echo "$d"
}

# what the server writes belongs to its user
pack --owner=0 --group=0 -cf "$work/layer" -C "$work/root" etc usr
pack --owner=65532 --group=65532 -rf "$work/layer" -C "$work/root" models state
plain=$(digest "$work/layer")
gzip -n -9 "$work/layer"
layerSize=$(size "$work/layer.gz")
layer=$(blob "$work/layer.gz")
printf '{"architecture":"%s","os":"linux","config":{"User":"65532:65532","WorkingDir":"/",%s},%s}' \
  "$arch" \
  '"Env":["WEIR_CACHE=/state/plans"],"Entrypoint":["/usr/bin/weir"],'\
'"Cmd":["up","--models","/models"]' \
  "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$plain\"]}" >"$work/config"
configSize=$(size "$work/config")
config=$(blob "$work/config")
v=application/vnd.oci.image
printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{%s},"layers":[{%s}]}' "$v" \
  "\"mediaType\":\"$v.config.v1+json\",\"digest\":\"sha256:$config\",\"size\":$configSize" \
  "\"mediaType\":\"$v.layer.v1.tar+gzip\",\"digest\":\"sha256:$layer\",\"size\":$layerSize" \
  >"$work/manifest"
manifestSize=$(size "$work/manifest")
manifest=$(blob "$work/manifest")
printf '{"schemaVersion":2,"mediaType":"%s.index.v1+json","manifests":[{%s,%s}]}' "$v" \
  "\"mediaType\":\"$v.manifest.v1+json\",\"digest\":\"sha256:$manifest\",\"size\":$manifestSize" \
  '"annotations":{"org.opencontainers.image.ref.name":"weir:latest"}' >"$work/image/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
pack --owner=0 --group=0 -cf "$out.part" -C "$work/image" blobs index.json oci-layout
mv "$out.part" "$out"
