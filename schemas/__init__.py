"""Floor 1: what a run folder holds. Every table is declared once here; no torch, no duckdb."""

from .columns import KINDS, SCHEMA_VERSION, VERSION_KEY, Column, Phase, Table
from .files.breadcrumb import BreadcrumbWriter, Position, read_breadcrumb
from .files.capture_meta import STOPPED, CaptureMeta, captures_of, read_meta, write_meta
from .files.manifest import (
    EarlierAttempt,
    ExceptionRecord,
    ExitRecord,
    LastPosition,
    RunManifest,
    SchemaError,
    SupervisorCost,
    encode_json,
    read_exit,
    read_manifest,
    write_json,
)
from .files.records import RECORDS
from .tables import TABLES

__all__ = [
    "KINDS",
    "RECORDS",
    "SCHEMA_VERSION",
    "STOPPED",
    "TABLES",
    "VERSION_KEY",
    "BreadcrumbWriter",
    "CaptureMeta",
    "Column",
    "EarlierAttempt",
    "ExceptionRecord",
    "ExitRecord",
    "LastPosition",
    "Phase",
    "Position",
    "RunManifest",
    "SchemaError",
    "SupervisorCost",
    "Table",
    "captures_of",
    "encode_json",
    "read_breadcrumb",
    "read_exit",
    "read_manifest",
    "read_meta",
    "write_json",
    "write_meta",
]
