"""Certificates for tests of TLS."""

import subprocess
from pathlib import Path


def self_signed(folder: Path, host: str) -> Path:
    """Make a self-signed certificate for a host and return the file that has it and its key."""
    path = folder / "both.pem"
    command = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={host}"
    names = ["-addext", f"subjectAltName=DNS:{host}", "-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path
