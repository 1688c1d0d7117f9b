"""FuseSoC generator: exports a unit, with its core file, to the current folder."""

import subprocess
import sys
from pathlib import Path

import yaml


def options(parameters: dict[str, object], root: Path) -> list[str]:
    """Convert the parameters in a core file to options of `lately export`."""
    words = []
    for name, value in parameters.items():
        option = f"--{name.replace('_', '-')}"
        if name == "spec":
            value = root / str(value)
        if value is True:
            words.append(option)
        elif value is not False:
            words += [option, str(value)]
    return words


if __name__ == "__main__":
    request = yaml.safe_load(Path(sys.argv[1]).read_text("utf-8"))
    words = options(request.get("parameters") or {}, Path(request["files_root"]))
    # FuseSoC collects the cores in this folder.
    command = ["lately", "export", *words, "--out-dir", "export"]
    sys.exit(subprocess.run(command, check=False).returncode)
