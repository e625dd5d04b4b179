"""A whole federation on this machine: a server, three hospitals, TLS, and a key for every node.

    python examples/deployment/run.py

starts Flower's server and nodes as separate processes on loopback, runs four rounds of a private
mean of covariance matrices, prints the result and stops everything.  `--kill NAME` ends a hospital
after the first round; `--restart` ends the server after it and starts it again.  `--logs DIR` keeps
what every process said, however the run ends; `--timeout SECONDS` says how long it may stand still.
Needs ``pip install 'skriemdp[flower]'``.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

APP = Path(__file__).parent / "app"
HOSPITALS = ("north", "east", "south")
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def write_certificates(folder):
    """A certificate authority and the server's certificate for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def make(name, issuer=None, issuer_key=None):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        authority = issuer is None
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        signer = key if authority else issuer_key
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if authority else issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
            )
        )
        if authority:
            usage = [False] * 9
            usage[5] = usage[6] = True  # signs certificates and revocation lists
            builder = builder.add_extension(x509.KeyUsage(*usage), critical=True)
        return key, builder.sign(signer, hashes.SHA256())

    ca_key, ca = make("demonstration authority")
    key, certificate = make("127.0.0.1", ca, ca_key)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(certificate.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write_secret(folder / "server.key", secret)


def write_node_key(path):
    """A node's key pair, in OpenSSH's format."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    _write_secret(path, secret)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    Path(f"{path}.pub").write_bytes(public)


def _write_secret(path, data):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


class Federation:
    """The processes of one federation and their files under `folder`."""

    app = None

    def __init__(
        self,
        folder,
        n_rounds=4,
        round_timeout=60.0,
        round_grace=12.0,
        epsilon=1.0,
        logs=None,
        timeout=120.0,
    ):
        self.folder = Path(folder)
        self.logs = self.folder / "logs" if logs is None else Path(logs)
        self.timeout = timeout
        self.n_rounds, self.round_timeout = n_rounds, round_timeout
        self.round_grace = round_grace
        self.epsilon = epsilon
        self.processes = {}
        self.port, *self.node_ports = free_ports(1 + len(HOSPITALS))
        self.checkpoint = self.folder / "checkpoint.json"

    def __enter__(self):
        for name in ("server", "operator", *HOSPITALS):
            (self.folder / name).mkdir(parents=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        write_certificates(self.folder)
        return self

    def __exit__(self, *_):
        for process in self.processes.values():  # all at once, then wait for each
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for name in list(self.processes):
            self.stop(name)

    # -- processes ------------------------------------------------------------------------------

    def _environment(self, home):
        proxies = ("http_proxy", "https_proxy", "all_proxy")
        kept = {k: v for k, v in os.environ.items() if k.lower() not in proxies}
        search = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
        return {**kept, **QUIET, "FLWR_HOME": str(home / "flower"), "PATH": search}

    def _start(self, name, *command, home=None):
        home = self.folder / (home or name)
        with open(self.logs / f"{name}.txt", "a") as log:
            self.processes[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=self._environment(home),
                start_new_session=True,
            )

    def stop(self, name, how=signal.SIGTERM):
        """End a role with all its helper processes."""
        process = self.processes.pop(name)
        for one in (how, signal.SIGKILL):
            try:
                os.killpg(process.pid, one)
            except ProcessLookupError:
                break
            try:
                process.wait(3.0)
            except subprocess.TimeoutExpired:
                continue

    def _flwr(self, *command):
        home = self.folder / "operator"
        answer = subprocess.run(
            ["flwr", *command, "--format", "json"],
            capture_output=True,
            text=True,
            cwd=home,
            env=self._environment(home),
            timeout=60,
        )
        text = answer.stdout
        if "{" not in text:
            raise RuntimeError(f"flwr {command[0]}: {text}{answer.stderr}")
        found = json.loads(text[text.index("{") :])
        if answer.returncode or not found.get("success", True):
            raise RuntimeError(f"flwr {command[0]}: {text}{answer.stderr}")
        return found

    # -- roles ----------------------------------------------------------------------------------

    def start_server(self):
        f = self.folder
        self._start(
            "server",
            *("flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)),
            *("--database", str(f / "server" / "superlink.db"), "--enable-supernode-auth"),
            *("--ssl-certfile", str(f / "server.pem"), "--ssl-keyfile", str(f / "server.key")),
            *("--ssl-ca-certfile", str(f / "ca.pem"), "--disable-runtime-dependency-installation"),
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                probe.settimeout(0.5)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.2)
        else:
            raise RuntimeError(f"the server did not start; see {self.logs / 'server.txt'}")
        home = f / "operator" / "flower"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "loop"\n[superlink.loop]\n'
            f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{f / "ca.pem"}"\n'
        )

    def register(self):
        """Tell the server every hospital's public key; returns the ids it gives."""
        keys = [self.folder / name / "key" for name in HOSPITALS]
        for key in keys:
            write_node_key(key)
        # Each command takes seconds to start; together they take as long as one.
        with ThreadPoolExecutor(len(keys)) as pool:
            answers = pool.map(
                lambda key: self._flwr("supernode", "register", f"{key}.pub", "loop"), keys
            )
            ids = [str(answer.get("node-id") or answer["node_id"]) for answer in answers]
        return dict(zip(HOSPITALS, ids, strict=True))

    def node_config(self, name):
        """A hospital's own settings, which no server can change."""
        home, number = self.folder / name, HOSPITALS.index(name)
        return f'hospital="{name}" state-dir="{home}" data-seed={number} epsilon={self.epsilon}'

    def start_node(self, name):
        home, number = self.folder / name, HOSPITALS.index(name)
        self._start(
            name,
            *("flower-supernode", "--superlink", f"127.0.0.1:{self.port}"),
            *("--root-certificates", str(self.folder / "ca.pem")),
            *("--auth-supernode-private-key", str(home / "key")),
            *("--host", "127.0.0.1", "--port", str(self.node_ports[number])),
            *("--node-config", self.node_config(name)),
        )

    def facts(self):
        """What is public of this federation."""
        return {
            "schedule": [HOSPITALS] * self.n_rounds,
            "n_records": dict.fromkeys(HOSPITALS, 200),
        }

    def describe(self, nodes):
        """The operator's public description of the federation."""
        description = self.facts() | {
            "fit_id": "demonstration",
            "nodes": nodes,
            "checkpoint": str(self.checkpoint),
            "round_timeout": self.round_timeout,
            "round_grace": self.round_grace,
            "wait_for_nodes": 60.0,
        }
        (self.folder / "federation.json").write_text(json.dumps(description))

    def submit(self):
        path = self.folder / "federation.json"
        return self._flwr(
            "run", str(self.app or APP), "loop", "--run-config", f'federation="{path}"'
        )

    # -- progress -------------------------------------------------------------------------------

    def state(self):
        try:
            return json.loads(self.checkpoint.read_text())
        except FileNotFoundError:
            return {"next_round": 0, "answered": {}}

    def wait_for(self, answered_rounds):
        """Wait until so many rounds have ended."""
        return self.wait_until(lambda state: len(state["answered"]) >= answered_rounds)

    def wait_until(self, reached):
        """Wait until the checkpoint is in a state of which this is true."""
        state, deadline = self.state(), time.monotonic() + self.timeout
        while not reached(state):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"no progress in {self.timeout:g} s; see {self.logs} (a longer --timeout, and "
                    "--logs DIR, which keeps them)."
                )
            time.sleep(0.05)
            before, state = state, self.state()
            if state != before:
                deadline = time.monotonic() + self.timeout
        return state


def run(folder, kill=None, restart=False, **settings):
    """One federation from start to end; returns the final checkpoint."""
    with Federation(folder, **settings) as federation:
        federation.start_server()
        nodes = federation.register()
        federation.describe(nodes)
        for name in HOSPITALS:
            federation.start_node(name)
        federation.submit()
        lost = 0
        if kill or restart:
            federation.wait_for(1)
        if kill:
            federation.stop(kill, signal.SIGKILL)
        if restart:
            federation.stop("server", signal.SIGKILL)
            lost = 1  # the round in flight is lost, and not asked again
            federation.start_server()
            federation.submit()
        return federation.wait_for(federation.n_rounds - lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kill", choices=HOSPITALS, help="end this hospital after round 1")
    parser.add_argument("--restart", action="store_true", help="restart the server after round 1")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--logs", metavar="DIR", help="keep the logs of all processes there")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds without progress")
    parser.add_argument("--folder", help="where files are kept; a temporary folder by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary).resolve()
        began = time.monotonic()
        state = run(
            folder,
            arguments.kill,
            arguments.restart,
            n_rounds=arguments.rounds,
            logs=arguments.logs and Path(arguments.logs).resolve(),
            timeout=arguments.timeout,
        )
        for t, clients in state["answered"].items():
            print(f"round {int(t) + 1}: {', '.join(clients)}")
        print("private mean:", state["point"])
        print(f"{time.monotonic() - began:.0f} s")
        from skriemdp import PrivacyAccountant

        for name in HOSPITALS:
            path = folder / name / "privacy.ledger"
            if path.exists():
                print(f"{name}: {PrivacyAccountant(1.0, path=str(path)).spent}")


if __name__ == "__main__":
    main()
