#!/bin/sh
# Chromium for the tests of the board's pages, where a package manager may install it; else they are skipped.
if command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -y -qq chromium >/dev/null && exit 0
fi
echo "no Chromium here: the tests of pages are skipped; apt-get install chromium (Debian, Ubuntu) runs them" >&2
