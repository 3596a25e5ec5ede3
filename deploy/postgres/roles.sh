#!/bin/sh
# Makes the roles and the database of Steward when PostgreSQL starts for the first time.
set -eu
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -v password="$DATABASE_PASSWORD" <<'SQL'
CREATE ROLE steward_owner LOGIN PASSWORD :'password';
CREATE ROLE steward LOGIN PASSWORD :'password';
CREATE DATABASE steward OWNER steward_owner;
SQL
