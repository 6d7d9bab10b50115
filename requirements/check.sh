#!/bin/sh
# One clear line for a missing or old Python or Java, before anything is installed.
python=$1
if ! command -v "$python" >/dev/null 2>&1; then
    echo "Python 3.11 or newer is needed and '$python' is not there; install it with: apt-get install python3 python3-venv (Debian, Ubuntu) or brew install python@3.11 (macOS)" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "Python 3.11 or newer is needed and '$python' is $("$python" --version 2>&1); install it with: apt-get install python3.11 python3.11-venv (Debian, Ubuntu) or brew install python@3.11 (macOS), then: make PYTHON=python3.11" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "Python's venv module is missing; install it with: apt-get install python3-venv" >&2
    exit 1
fi
install="apt-get install openjdk-17-jdk-headless (Debian, Ubuntu), dnf install java-17-openjdk-devel (Fedora, RHEL) or brew install openjdk@17 (macOS)"
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if ! command -v "$java" >/dev/null 2>&1; then
    echo "Java 17 to 23 is needed and none is there; install it with: $install" >&2
    exit 1
fi
major=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
if [ -z "$major" ] || [ "$major" -lt 17 ] || [ "$major" -gt 23 ]; then
    echo "Java 17 to 23 is needed and this one is ${major:-of no known version}; install it with: $install, and name it with JAVA_HOME where another one comes first" >&2
    exit 1
fi
