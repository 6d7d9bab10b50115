"""Networks of a cluster's servers: only addresses in them get a connection and our account.

A name server lists any address as a broker's. Without such a list, an attacker who controls a name
server, or a broker that registers under a false address, learns the access key and a signature.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network


@dataclass(slots=True, frozen=True)
class Networks:
    """The networks that may be connected to.

    Attributes:
        allowed: at least one.
    """

    allowed: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, text: str) -> "Networks":
        """Return the networks of a text like ``10.0.0.0/8 10.1.2.3``.

        Blanks or commas separate them. An address alone is a network of one.

        Raises:
            ValueError: a part of it is no network, or there is none.
        """
        allowed = []
        for part in filter(None, re.split(r"[\s,]+", text)):
            try:
                allowed.append(ip_network(part))
            except ValueError as error:
                raise ValueError(f"{part!r} is no network like 10.0.0.0/8: {error}") from None
        if not allowed:
            raise ValueError("no network here, write one like 10.0.0.0/8")
        return cls(tuple(allowed))

    def within(self, addresses: Sequence[str]) -> list[str]:
        """Return the addresses that are in one of the networks."""
        return [address for address in addresses if self._holds(address)]

    def _holds(self, address: str) -> bool:
        found = ip_address(address.partition("%")[0])  # without the interface of a local one
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self.allowed)

    def __str__(self) -> str:
        return ", ".join(map(str, self.allowed))
