"""Values and defaults of command-line options, known before the commands are imported."""

from enum import StrEnum


class Autonomy(StrEnum):
    """What a run may do unattended."""

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
    """Whose records, of those that only one side of a flow has."""

    SOURCE = "source"
    TARGET = "target"
    BOTH = "both"


class KeepDiverged(StrEnum):
    """What a failback does with records that only the old source has, before it deletes their topic."""

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
"""How long a mirror job may take to confirm a pause."""
WITHIN_S = 20.0
"""How long all questions of doctor may take together."""
PROBE_PATIENCE_S = 10.0
"""How long brokers may take to show access changes."""
CONNECTOR = "MirrorSourceConnector"
"""The name that MirrorMaker 2 gives its source connector when it runs by itself."""
