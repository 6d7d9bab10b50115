-- Beside `iceberg`, which holds the catalog: the storage of Dagster.
CREATE DATABASE dagster;
