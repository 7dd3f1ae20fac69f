"""From the YAML files of a folder to one frozen environment, and back to YAML. Texts in, texts out.

Belongs here: parsing, validation, adopting and importing. Not here: reading files (`backends.files`), values (`model`).
"""
