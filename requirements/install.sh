#!/bin/sh
# Install what the lock file pins, and print how far that is: which package of how many, and the time.
# usage: install.sh PYTHON LOCK
python=$1 lock=$2
count=$(grep -c '^[A-Za-z0-9_.-]*==' "$lock")
echo "setup: installing $count packages: about 1 GB to download, 2.4 GB on disk; 1 to 2 minutes where the network is fast"
begun=$(date +%s)
{
    "$python" -m pip install --disable-pip-version-check --no-deps --require-hashes -r "$lock" 2>&1
    echo "pip: ended with $?"
} | awk -v begun="$begun" -v count="$count" '
    BEGIN { code = 1 } # where pip and its shell were killed there is no last line
    function report(text,  now) { "date +%s" | getline now; close("date +%s"); printf "setup: [%3d s] %s\n", now - begun, text; fflush() }
    /^Collecting / { done++; if (done % 20 == 0) report(done " of " count " packages downloaded or in the cache") }
    /^ *Downloading .*\([0-9.]+ MB\)/ { size = $NF == "MB)" ? $(NF - 1) : ""; gsub(/[(]/, "", size); if (size + 0 >= 50) report("downloading " $2 ", " size " MB") }
    /^Building wheel/ || /^Installing collected packages/ { report($1 == "Building" ? "building a package, usually 20 s" : "writing " count " packages to disk, usually 40 s") }
    /^ERROR|^WARNING: Retrying|^error:/ { print; fflush() }
    /^pip: ended with / { code = $4 }
    END { if (code == 0) report("done"); exit code }
'
