"""The wheel's name: tools for one platform, Python code for every version. scripts/wheel puts both beside this file."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Tools(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "manylinux_2_28_x86_64"


setup(distclass=Tools, cmdclass={"bdist_wheel": Wheel})
