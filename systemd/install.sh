#!/bin/sh
# Installs scanmd as a service on Debian or Ubuntu; run again to update it.
#
#   install.sh [--gpu] [--no-apt] [--root DIR]
#   install.sh --uninstall [--purge] [--root DIR]
#
# --gpu        also what the DeepSeek engine needs (torch and so on), and its drop-in
# --no-apt     do not install Debian packages; say which are missing
# --root DIR   install into the system below DIR (a container or an image)
# --purge      with --uninstall: settings, ledger, caches and user go, too
#
# Never touched: settings that were edited, documents, drop-ins of your own.
set -eu

PACKAGES="python3 python3-venv poppler-utils"
HOME_DIR=/opt/scanmd
VENV=$HOME_DIR/venv
UNITS=/usr/local/lib/systemd/system
DROPINS=/etc/systemd/system/scanmd.service.d
SOURCE=$(cd "$(dirname "$0")/.." && pwd)
LOCK=${LOCK:-$SOURCE/requirements.lock}
ROOT="" GPU="" APT=yes ACTION=install PURGE=""

say() { printf '%s\n' "scanmd: $*"; }
fail() { printf '%s\n' "scanmd: $*" >&2; exit 1; }

inside() { # runs a command of the target system
    if [ -n "$ROOT" ]; then chroot "$ROOT" "$@"; else "$@"; fi
}

live() { [ -z "$ROOT" ] && [ -d /run/systemd/system ]; }

install_packages() {
    missing=""
    for package in $PACKAGES; do
        inside dpkg-query -W -f '${Status}' "$package" 2>/dev/null \
            | grep -q '^install ok installed$' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    [ -n "$APT" ] || fail "these packages are missing:$missing"
    say "installing$missing"
    inside env DEBIAN_FRONTEND=noninteractive apt-get update -q
    # shellcheck disable=SC2086 # a list of names
    inside env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $missing
}

install_program() {
    [ -f "$LOCK" ] || fail "there is no lock file $LOCK; name one with LOCK=FILE"
    inside python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
        || fail "Python 3.11 or newer is needed (Debian 12, Ubuntu 24.04)"
    source=$ROOT$HOME_DIR/source
    rm -rf "$source"
    install -d -m 0755 "$ROOT$HOME_DIR" "$ROOT$HOME_DIR/share" "$source"
    cp -R "$SOURCE/daemon" "$SOURCE/ocr" "$SOURCE/pyproject.toml" "$SOURCE/LICENSE" "$source"
    [ ! -f "$SOURCE/README.md" ] || cp "$SOURCE/README.md" "$source"
    [ -f "$source/README.md" ] || : > "$source/README.md"
    cp "$LOCK" "$source/requirements.lock"
    # After an upgrade of the system's Python the old venv's packages are not found.
    if [ -d "$ROOT$VENV" ] && ! inside "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        rm -rf "$ROOT$VENV"
    fi
    [ -d "$ROOT$VENV" ] || inside python3 -m venv "$VENV"
    # --no-deps: exactly what the lock file says, above all one OpenCV and no torch.
    inside "$VENV/bin/python" -m pip install -q --no-deps -r "$HOME_DIR/source/requirements.lock"
    inside "$VENV/bin/python" -m pip install -q --no-deps --force-reinstall "$HOME_DIR/source"
    [ -z "$GPU" ] || inside "$VENV/bin/python" -m pip install -q "$HOME_DIR/source[gpu]"
    cp "$source/README.md" "$SOURCE/config/scanmd.yaml" "$ROOT$HOME_DIR/share/"
    rm -rf "$source"
    install -d -m 0755 "$ROOT/usr/local/bin"
    ln -sfn "$VENV/bin/scanmd" "$ROOT/usr/local/bin/scanmd"
}

install_service() {
    install -d -m 0755 "$ROOT$UNITS" "$ROOT$DROPINS" \
        "$ROOT/usr/local/lib/sysusers.d" "$ROOT/usr/local/lib/tmpfiles.d"
    install -m 0644 "$SOURCE/systemd/scanmd.service" "$ROOT$UNITS/scanmd.service"
    install -m 0644 "$SOURCE/systemd/scanmd.sysusers.conf" \
        "$ROOT/usr/local/lib/sysusers.d/scanmd.conf"
    install -m 0644 "$SOURCE/systemd/scanmd.tmpfiles.conf" \
        "$ROOT/usr/local/lib/tmpfiles.d/scanmd.conf"
    if [ -n "$GPU" ]; then
        install -m 0644 "$SOURCE/systemd/scanmd-gpu.conf" "$ROOT$DROPINS/20-gpu.conf"
    fi
    inside systemd-sysusers /usr/local/lib/sysusers.d/scanmd.conf
    # Another system makes its folders when it boots.
    if live; then systemd-tmpfiles --create /usr/local/lib/tmpfiles.d/scanmd.conf; fi
}

install_settings() {
    settings=$ROOT/etc/scanmd/scanmd.yaml
    install -d -m 0755 "$ROOT/etc/scanmd"
    if [ -e "$settings" ]; then
        say "kept the settings in /etc/scanmd/scanmd.yaml (new example: $HOME_DIR/share/scanmd.yaml)"
    else
        # Not for everybody: it may hold the passwords of documents.
        install -m 0640 "$SOURCE/config/scanmd.yaml" "$settings"
        inside chgrp scanmd /etc/scanmd/scanmd.yaml
    fi
}

open_folders() {
    new=$ROOT$DROPINS/10-folders.conf.new
    if inside "$VENV/bin/scanmd" systemd-dropin --config /etc/scanmd/scanmd.yaml > "$new"; then
        mv "$new" "$ROOT$DROPINS/10-folders.conf"
    else
        rm -f "$new"
        say "no folder was opened to the service: correct the settings, then run this again"
    fi
}

start_service() {
    live || { inside systemctl enable -q scanmd.service; return 0; }
    systemctl daemon-reload
    systemctl enable -q scanmd.service
    if scanmd config check --config /etc/scanmd/scanmd.yaml; then
        systemctl restart scanmd.service || fail "it did not start: journalctl -u scanmd"
        say "running; see: systemctl status scanmd"
    else
        say "installed, not started: set your folders in /etc/scanmd/scanmd.yaml, then run this again"
    fi
}

uninstall() {
    if live; then systemctl disable -q --now scanmd.service 2>/dev/null || true
    else inside systemctl disable -q scanmd.service 2>/dev/null || true; fi
    rm -f "$ROOT$UNITS/scanmd.service" "$ROOT$DROPINS/10-folders.conf" "$ROOT$DROPINS/20-gpu.conf" \
        "$ROOT/usr/local/lib/sysusers.d/scanmd.conf" "$ROOT/usr/local/lib/tmpfiles.d/scanmd.conf"
    rmdir "$ROOT$DROPINS" 2>/dev/null || true
    [ "$(readlink "$ROOT/usr/local/bin/scanmd" || true)" != "$VENV/bin/scanmd" ] \
        || rm -f "$ROOT/usr/local/bin/scanmd"
    rm -rf "$ROOT$HOME_DIR"
    if [ -n "$PURGE" ]; then
        rm -rf "$ROOT/etc/scanmd" "$ROOT/var/lib/scanmd" "$ROOT/var/cache/scanmd"
        inside userdel scanmd 2>/dev/null || true
    else
        say "kept: /etc/scanmd, /var/lib/scanmd, /var/cache/scanmd, the user scanmd (--purge)"
    fi
    if live; then systemctl daemon-reload; fi
    say "removed"
}

while [ $# -gt 0 ]; do
    case $1 in
        --gpu) GPU=yes ;;
        --no-apt) APT="" ;;
        --root) [ $# -ge 2 ] || fail "--root needs a folder"; ROOT=${2%/}; shift ;;
        --uninstall) ACTION=uninstall ;;
        --purge) PURGE=yes ;;
        *) fail "unknown option $1 (see the head of $0)" ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || fail "this must be run as root: sudo make install"
umask 022

if [ "$ACTION" = uninstall ]; then
    uninstall
else
    install_packages
    install_program
    install_service
    install_settings
    open_folders
    start_service
fi
