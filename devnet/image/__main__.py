"""`python -m devnet.image [FOLDER]`: writes the image as an OCI layout, and prints its digest and size as JSON.

`skopeo copy oci:FOLDER docker://registry.example/lessor:0.1.0` pushes it. `--tools FOLDER` writes only the programs
that are built from Go modules, for `Containerfile`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from devnet.errors import DevnetError
from devnet.image.build import build_image, cached_image, described, place_tools


def main() -> int:
    try:
        match sys.argv[1:]:
            case ["--tools", folder]:
                place_tools(Path(folder))
            case [folder]:
                print(described(build_image(Path(folder))))  # noqa: T201
            case _:
                print(described(build_image(cached_image())))  # noqa: T201
    except DevnetError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
