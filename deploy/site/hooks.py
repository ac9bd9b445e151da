"""Makes one site of the repository's pages: those of docs/, and those that lie beside what they describe."""

import json
import logging
import os
import posixpath
import re
import sys
from pathlib import Path

import yaml
from mkdocs.structure.files import File

log = logging.getLogger("mkdocs.hooks.pairstream")

sys.path.insert(0, str(Path(__file__).parent))
import specifications

ROOT = Path(__file__).resolve().parents[2]
VERSION = os.environ.get("VERSION") or "main"

# Pages outside docs/, by their place on the site.
OUTSIDE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "examples.md": "examples/README.md",
    "clients/python.md": "clients/python/README.md",
    "clients/api.md": "deploy/site/python-api.md",
    "deploy/helm.md": "deploy/helm/pairstream/README.md",
    "experiments/models.md": "internal/demo/models/README.md",
    "experiments/precision.md": "internal/demo/models/precision.md",
}
# Documents for programs, and how to write them for readers. The site has both.
SPECIFICATIONS = {"asyncapi": specifications.asyncapi, "openapi": specifications.openapi}
SITE = {path: page for page, path in OUTSIDE.items()}
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
INLINE = re.compile(r"(?<!<pre>)(?<!</span>)<code>[^<]*</code>")
SIGN = re.compile(r"(?<!<)([/|,=.])(?=[^<])")
FENCE = re.compile(r"^(```.*?^```\s*?$)", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """Adds the pages that lie outside docs/, and those of the specifications."""
    for page, path in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    for name, page in SPECIFICATIONS.items():
        document = (ROOT / f"schemas/{name}.yaml").read_text()
        files.append(File.generated(config, f"specifications/{name}.md", content=page(yaml.safe_load(document))))
        files.append(File.generated(config, f"specifications/{name}.yaml", content=document))
    return files


def on_page_markdown(markdown, page, config, files):
    """Points every link of a page at the site, or at the file in the repository where the site has no such page."""
    if page.file.src_uri.startswith("specifications/"):
        return markdown
    source = OUTSIDE.get(page.file.src_uri, "docs/" + page.file.src_uri)
    here = posixpath.dirname(page.file.src_uri)

    def moved(match):
        target, anchor = match[1], match[2] or ""
        if not target or ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in SITE or path.startswith("docs/"):
            place = SITE.get(path, path.removeprefix("docs/"))
            return f"]({posixpath.relpath(place, here or '.')}{anchor})"
        if not (ROOT / path).exists():
            log.warning("%s links %s, which the repository does not have", source, target)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({config.repo_url}/{kind}/{VERSION}/{path}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def on_page_content(html, page, config, files):
    """Lets the lines of a narrow window end behind the signs in a path or list, and so not within its names."""
    return INLINE.sub(lambda match: SIGN.sub(r"\1<wbr>", match[0]), html)


def on_post_build(config):
    """Lists the versions beside this one, newest first, and sends the site's first page to the newest."""
    top = Path(config.site_dir).parent
    names = sorted((p.name for p in top.iterdir() if p.is_dir()), key=_order, reverse=True)
    versions = [{"version": name, "title": name, "aliases": []} for name in names]
    (top / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
    (top / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>pairstream</title><meta http-equiv="refresh" content="0; url={names[0]}/">\n'
        f'<a href="{names[0]}/">pairstream {names[0]}</a>\n'
    )


def _order(name):
    """Orders releases by number, and what is no release behind them."""
    return [int(n) for n in re.findall(r"\d+", name)] if re.fullmatch(r"v\d+(\.\d+)*", name) else []
