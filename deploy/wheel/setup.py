"""Builds what the folder's pyproject.toml describes. A wheel with a platform fits any Python, as it has no extension module."""

import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class WithProgram(Distribution):
    """Goes where PyTorch goes, which on some systems is another folder than that of pure packages."""

    def has_ext_modules(self) -> bool:
        return True


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", self.plat_name if self.plat_name_supplied else "any")


setup(cmdclass={"bdist_wheel": Wheel}, distclass=WithProgram if "--plat-name" in sys.argv else Distribution)
