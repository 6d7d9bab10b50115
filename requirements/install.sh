#!/bin/sh
# Install what the lock file pins, and print how far that is: which package of how many, and the time.
# usage: install.sh PYTHON LOCK
python=$1 lock=$2
count=$(grep -c '^[A-Za-z0-9_.-]*==' "$lock")
echo "setup: installing $count packages: 1 GB to download, 2.4 GB on disk; usually 2 minutes, longer on a slow network"
begun=$(date +%s)
{
    "$python" -m pip install --disable-pip-version-check --no-deps --require-hashes -r "$lock" 2>&1
    echo "pip: ended with $?"
} | awk -v begun="$begun" -v count="$count" '
    function told(text,  now) { "date +%s" | getline now; close("date +%s"); printf "setup: [%3d s] %s\n", now - begun, text; fflush() }
    /^Collecting / { done++; if (done % 20 == 0) told(done " of " count " packages downloaded or in the cache") }
    /^ *Downloading .*\([0-9.]+ MB\)/ { size = $NF == "MB)" ? $(NF - 1) : ""; gsub(/[(]/, "", size); if (size + 0 >= 50) told("downloading " $2 ", " size " MB") }
    /^Building wheel/ || /^Installing collected packages/ { told($1 == "Building" ? "building a package, usually 20 s" : "writing " count " packages to disk, usually 40 s") }
    /^ERROR|^WARNING: Retrying|^error:/ { print; fflush() }
    /^pip: ended with / { code = $4 }
    END { if (code == 0) told("done"); exit code }
'
