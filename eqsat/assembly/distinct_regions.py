"""The distinct regions of a module, each under a name of its own."""

from __future__ import annotations

import msgspec

from ir.names import new_name
from ir.region.region import Region


class DistinctRegions:
    """Regions that differ in more than their names. The first of equal ones gives its name to all; where another region
    has this name, with a number behind it: `dot_add`, `dot_add_2`, …."""

    def __init__(self) -> None:
        self._named: dict[Region, Region] = {}
        self._taken: set[str] = set()

    def of(self, region: Region) -> Region:
        """The region under its name."""
        bare = msgspec.structs.replace(region, name="")
        if bare not in self._named:
            name = new_name(region.name, self._taken)
            self._taken.add(name)
            self._named[bare] = msgspec.structs.replace(region, name=name)
        return self._named[bare]
