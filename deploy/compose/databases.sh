#!/bin/bash
# Makes the two databases, each with a user of its own who owns it, enters no other and is no superuser.
set -euo pipefail
for name in "$ICEBERG_PASSWORD" "$DAGSTER_PASSWORD" "$POSTGRES_PASSWORD"; do
  case "$name" in
    "" | *[Cc][Hh][Aa][Nn][Gg][Ee]_[Mm][Ee]*) echo "postgres.env holds CHANGE_ME or nothing as a password" >&2; exit 1 ;;
  esac
done
psql -v ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  -v iceberg="$ICEBERG_PASSWORD" -v dagster="$DAGSTER_PASSWORD" <<'SQL'
CREATE ROLE tidemark LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'iceberg';
CREATE ROLE dagster LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'dagster';
CREATE DATABASE iceberg OWNER tidemark;
CREATE DATABASE dagster OWNER dagster;
REVOKE CONNECT, TEMPORARY ON DATABASE iceberg, dagster, postgres FROM PUBLIC;
SQL
