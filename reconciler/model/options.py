"""Values and defaults of command-line options, known before the commands are imported."""

from enum import StrEnum


class Autonomy(StrEnum):
    """Changes that a run may make unattended."""

    NONE = "none"
    SAFE = "safe"
    ALL = "all"


class ReportFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    HTML = "html"


class TableFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class LogSide(StrEnum):
    """The side of a flow with records of its own."""

    SOURCE = "source"
    TARGET = "target"
    BOTH = "both"


class KeepDiverged(StrEnum):
    """Treatment of the old source's own records, before a failback deletes their topic."""

    TO_TOPIC = "to-topic"
    TO_FILE = "to-file"
    DISCARD = "discard"


class MapFormat(StrEnum):
    SVG = "svg"
    HTML = "html"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"


CONFIRM_S = 60.0
"""Seconds within which a mirror job must confirm a pause."""
WITHIN_S = 20.0
"""Seconds for all questions of doctor."""
PROBE_PATIENCE_S = 10.0
"""Seconds within which brokers must show access changes."""
CONNECTOR = "MirrorSourceConnector"
"""The name that MirrorMaker 2 gives its source connector when it runs by itself."""
