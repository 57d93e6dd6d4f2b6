"""What pyproject.toml cannot say: how the C files become shared libraries where there is a compiler.

The libraries belong to no Python: they are loaded by ctypes. So one wheel serves every Python 3 of a platform, and a wheel that
was built without a compiler every platform.
"""

from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

LIBRARIES = {
    "firstfault.recorder.tensors.libmoments": "recorder/tensors/moments.c",
    "firstfault.analyzer.importers.libtrace_scan": "analyzer/importers/trace_scan.c",
}


class BuildLibrary(build_ext):
    """Builds plain shared libraries; goes on without where that fails."""

    def get_ext_filename(self, fullname: str) -> str:
        """No Python's tag in the name."""
        return f"{fullname.replace('.', '/')}.so"

    def get_export_symbols(self, ext: Extension) -> list[str]:  # noqa: ARG002 — setuptools' name
        """Not those of a Python module."""
        return []

    def run(self) -> None:
        """A machine without a compiler is no reason not to install: setuptools warns of an optional one that fails."""
        try:
            super().run()
        except Exception as e:  # noqa: BLE001 — a compiler fails in as many ways as there are compilers
            self.warn(
                f"no shared library was built ({e}); the recorder measures by torch's operators, import reads more slowly"
            )


class PlatformWheel(bdist_wheel):
    """A wheel for any Python 3, of this platform if it holds a library."""

    def get_tag(self) -> tuple[str, str, str]:
        """Asked when everything has been built."""
        built = any(any(Path(self.bdist_dir).glob(f"**/{name.rpartition('.')[2]}.so")) for name in LIBRARIES)
        platform = super().get_tag()[2] if built else "any"
        return "py3", "none", platform


options: dict[str, Any] = {"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel}
setup(
    script_name="setup.py",  # or else it becomes a module of the package, which begins in this folder
    cmdclass=options,
    ext_modules=[
        Extension(
            name,
            [source],
            # vectors of 32 bytes never cross a function's border, which is all that -Wpsabi warns of
            # roots are an instruction then, and no call of a library
            extra_compile_args=["-O3", "-g0", "-fvisibility=hidden", "-Wno-psabi", "-fno-math-errno"],
            optional=True,
        )
        for name, source in LIBRARIES.items()
    ],
)
