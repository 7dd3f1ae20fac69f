"""The JSON schemas lie at the top of the repository; a wheel holds them as ``reconciler/schemas``."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithSchemas(build_py):
    """Editable installs read ``schemas/`` where it is; see ``reconciler.model.schemas``."""

    def run(self):
        super().run()
        if not self.editable_mode:
            for source, built in self._schemas().items():
                self.mkpath(str(Path(built).parent))
                self.copy_file(source, built)

    def get_source_files(self):
        return [*super().get_source_files(), *self._schemas()]

    def get_outputs(self, include_bytecode=True):
        return [*super().get_outputs(include_bytecode), *self._schemas().values()]

    def _schemas(self):
        into = Path(self.build_lib) / "reconciler" / "schemas"
        return {str(path): str(into / path.relative_to("schemas")) for path in sorted(Path("schemas").rglob("*.json"))}


setup(cmdclass={"build_py": BuildWithSchemas})
