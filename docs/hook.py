"""Adds the generated reference and the version to the site; MkDocs calls this module as a hook.

MkDocs puts the folder of a hook first on the search path, so no module next to it may have
the name of a package: ``docs/generate/settings.py`` would hide ``settings``.
"""

from importlib.metadata import version

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.generate.pages import pages


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the version at the head of each page: a reference is right for one version only."""
    config.site_name += f" {version('tidemark')}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every generated page to the pages that people wrote."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
