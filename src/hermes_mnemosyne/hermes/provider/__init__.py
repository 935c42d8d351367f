"""The provider of the host, in modules that the host does not execute on its own."""

from hermes_mnemosyne.hermes.provider.provider import MnemosyneProvider

__all__ = ["MnemosyneProvider"]
